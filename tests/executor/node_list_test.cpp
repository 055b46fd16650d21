#include "node_list.hpp"

#include <doctest/doctest.h>

#include "node_walk.hpp"

using namespace fmhax;
using namespace fmhax::detail;

namespace {

const SetNode kSet{nullptr, 0, 1};
const CopyNode kFetch{nullptr, nullptr, 4, hipMemcpyDeviceToHost};
const CopyNode kUpload{nullptr, nullptr, 4, hipMemcpyHostToDevice};
const HostNode kHost{nullptr, nullptr};

void add_everything(NodeList& list) {
  list.add(NodeKind::fetch_q, kFetch);
  list.add(NodeKind::fetch_k, kFetch);
  list.add(NodeKind::fetch_logical_q, kFetch);
  list.add(NodeKind::fetch_logical_k, kFetch);
  list.add(NodeKind::pack, kHost);
  list.add(NodeKind::upload, kUpload);
  list.add(NodeKind::zero, kSet);
  for (const NodeKind kind : {NodeKind::dot_do_o, NodeKind::dq_dk_dv, NodeKind::convert_dq}) list.add_kernel(kind);
}

NodeSet dependencies_of(const NodeList& list, NodeKind kind) {
  for (const Node& node : list.nodes()) {
    if (node.kind == kind) return node.dependencies;
  }
  FAIL("the node is not in the list");
  return 0;
}

}  // namespace

TEST_CASE("the host chain, zeroing and dot_do_o wait for nothing of each other") {
  NodeList list;
  add_everything(list);
  for (const NodeKind kind : {NodeKind::fetch_q, NodeKind::fetch_k, NodeKind::fetch_logical_q,
                              NodeKind::fetch_logical_k, NodeKind::zero, NodeKind::dot_do_o}) {
    CHECK(dependencies_of(list, kind) == 0);
  }
  CHECK(dependencies_of(list, NodeKind::pack) ==
        node_set(NodeKind::fetch_q, NodeKind::fetch_k, NodeKind::fetch_logical_q, NodeKind::fetch_logical_k));
  CHECK(dependencies_of(list, NodeKind::upload) == node_set(NodeKind::pack));
  CHECK(dependencies_of(list, NodeKind::dq_dk_dv) == node_set(NodeKind::upload, NodeKind::zero, NodeKind::dot_do_o));
  CHECK(dependencies_of(list, NodeKind::convert_dq) == node_set(NodeKind::dq_dk_dv));
  CHECK(list.sinks() == node_set(NodeKind::convert_dq));
}

TEST_CASE("dbias and dsink run beside dq_dk_dv, after d and the metadata") {
  NodeList list;
  add_everything(list);
  list.add_kernel(NodeKind::dbias);
  list.add_kernel(NodeKind::dsink);
  for (const NodeKind kind : {NodeKind::dbias, NodeKind::dsink}) {
    CHECK(dependencies_of(list, kind) == node_set(NodeKind::upload, NodeKind::dot_do_o));
  }
  CHECK(list.sinks() == node_set(NodeKind::convert_dq, NodeKind::dbias, NodeKind::dsink));
}

TEST_CASE("dq_dk_dv waits for the constant metadata, zeroes and d of batch mode") {
  NodeList list;
  list.add(NodeKind::set_nsplits, kSet);
  list.add(NodeKind::zero, kSet);
  for (const NodeKind kind : {NodeKind::dot_do_o, NodeKind::dq_dk_dv}) list.add_kernel(kind);
  CHECK(dependencies_of(list, NodeKind::dq_dk_dv) ==
        node_set(NodeKind::set_nsplits, NodeKind::zero, NodeKind::dot_do_o));
}

TEST_CASE("kernels that read d wait for the launch that prepares where it computes d too") {
  NodeList list;
  for (const NodeKind kind :
       {NodeKind::prepare, NodeKind::dq_dk_dv, NodeKind::convert_dq, NodeKind::dbias, NodeKind::dsink})
    list.add_kernel(kind);
  for (const NodeKind kind : {NodeKind::dq_dk_dv, NodeKind::dbias, NodeKind::dsink}) {
    CHECK(dependencies_of(list, kind) == node_set(NodeKind::prepare));
  }
}

TEST_CASE("a dependency that a call does not have is replaced by that node's own") {
  NodeList list;
  list.add(NodeKind::fetch_q, kFetch);
  list.add(NodeKind::pack, kHost);
  list.add(NodeKind::upload, kUpload);
  list.add(NodeKind::zero, kSet);
  list.add_kernel(NodeKind::convert_dq);  // there are no keys, so no dq_dk_dv
  CHECK(dependencies_of(list, NodeKind::pack) == node_set(NodeKind::fetch_q));
  CHECK(dependencies_of(list, NodeKind::convert_dq) == node_set(NodeKind::upload, NodeKind::zero));
}

TEST_CASE("a dropped kernel leaves no trace") {
  NodeList list;
  list.add(NodeKind::zero, kSet);
  list.add_kernel(NodeKind::dot_do_o);
  list.drop_last();
  list.add_kernel(NodeKind::dq_dk_dv);
  CHECK(list.nodes().size() == 2);
  CHECK(dependencies_of(list, NodeKind::dq_dk_dv) == node_set(NodeKind::zero));
}

TEST_CASE("a list without a last kernel ends in every node that nobody waits for") {
  NodeList list;
  list.add(NodeKind::set_nsplits, kSet);
  list.add(NodeKind::zero, kSet);
  CHECK(list.sinks() == node_set(NodeKind::set_nsplits, NodeKind::zero));
}

TEST_CASE("the printed list names every node and every edge") {
  NodeList list;
  add_everything(list);
  const std::string text = describe(list);
  const std::string graphviz = dot(list);
  for (const Node& node : list.nodes()) {
    CHECK(text.find(to_string(node.kind)) != std::string::npos);
    CHECK(graphviz.find(to_string(node.kind)) != std::string::npos);
  }
  CHECK(text.find("keepalive") != std::string::npos);
  CHECK(graphviz.find("upload -> dq_dk_dv") != std::string::npos);
  CHECK(graphviz.find("zero -> upload") == std::string::npos);
}
