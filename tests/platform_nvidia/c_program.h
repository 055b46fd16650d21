/* A C program's use of the mapping: 0, or the number of the step that failed. */
#pragma once

#ifdef __cplusplus
extern "C"
#endif
    int
    run_c_program(void);
