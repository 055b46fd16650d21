/// @file Everything: the backward pass of fused attention as stream-ordered, graph-capturable work.
#pragma once

#include "fmhax/error.hpp"
#include "fmhax/executor.hpp"
#include "fmhax/graph.hpp"
#include "fmhax/graph_cache.hpp"
#include "fmhax/problem.hpp"
#include "fmhax/registry.hpp"
#include "fmhax/status.hpp"
#include "fmhax/tensor.hpp"
#include "fmhax/version.hpp"
#include "fmhax/workspace.hpp"
