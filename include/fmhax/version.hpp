/// @file The library's version; read by the build too.
#pragma once

#define FMHAX_VERSION_MAJOR 0
#define FMHAX_VERSION_MINOR 1
#define FMHAX_VERSION_PATCH 0
