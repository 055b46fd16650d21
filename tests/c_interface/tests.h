/// @file The parts of the test program; each counts its failures in failed_checks.
#ifndef FMHAX_TESTS_C_INTERFACE_TESTS_H
#define FMHAX_TESTS_C_INTERFACE_TESTS_H

void test_backward(void);
void test_parts(void);
void test_graph(void);
void test_graph_cache(void);
void test_texts_and_kernels(void);
void test_errors(void);
void test_callbacks(void);
void test_old_and_new_structs(void);

#endif
