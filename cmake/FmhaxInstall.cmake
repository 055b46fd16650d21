# install() and find_package(fmhax): the library, its public headers and a CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(fmhax_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fmhax)
set(fmhax_installed_targets fmhax_contract fmhax_workspace fmhax_executor fmhax)
foreach(provider cpu portable)
  if(TARGET fmhax_provider_${provider})
    list(APPEND fmhax_installed_targets fmhax_provider_${provider})
  endif()
endforeach()

install(TARGETS ${fmhax_installed_targets} EXPORT fmhaxTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT fmhax)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fmhax DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT fmhax
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/kernels/contract/fmhax DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT fmhax
        FILES_MATCHING PATTERN "*.hpp")

if(FMHAX_PLATFORM STREQUAL "host")
  # <hip/hip_runtime.h> of the host platform goes into a folder of its own, which only those who link
  # fmhax::platform_host see, so that it never stands in front of ROCm's.
  set_target_properties(fmhax_platform_host PROPERTIES EXPORT_NAME platform_host)
  install(TARGETS fmhax_platform_host EXPORT fmhaxTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT fmhax
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fmhax-host)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/platform/host/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fmhax-host
          COMPONENT fmhax FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
endif()

if(TARGET fmhax_platform_nvidia)
  # Likewise, for those who link fmhax::platform_nvidia.
  set_target_properties(fmhax_platform_nvidia PROPERTIES EXPORT_NAME platform_nvidia)
  install(TARGETS fmhax_platform_nvidia EXPORT fmhaxTargets
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fmhax-nvidia)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/platform/nvidia/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fmhax-nvidia
          COMPONENT fmhax FILES_MATCHING PATTERN "*.h")
endif()

if(TARGET fmhax_platform_amd)
  # ROCm's own headers and runtime, which fmhaxConfig.cmake finds.
  set_target_properties(fmhax_platform_amd PROPERTIES EXPORT_NAME platform_amd)
  install(TARGETS fmhax_platform_amd EXPORT fmhaxTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT fmhax)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/fmhaxConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/fmhaxConfig.cmake INSTALL_DESTINATION ${fmhax_package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fmhaxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fmhaxConfig.cmake ${PROJECT_BINARY_DIR}/fmhaxConfigVersion.cmake
        DESTINATION ${fmhax_package_dir} COMPONENT fmhax)
install(EXPORT fmhaxTargets NAMESPACE fmhax:: DESTINATION ${fmhax_package_dir} COMPONENT fmhax)
