#include "staging_pool.hpp"

#include <cstring>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "call_fixture.hpp"

using namespace fmhax;
using namespace fmhax::detail;
using namespace fmhax::test;

TEST_CASE("a block is not lent again before the stream has passed its release") {
  StagingPool pool;
  const OwnedStream stream;
  Gate gate(stream.get());
  StagingBlock* first = pool.acquire(1000, {});
  pool.release_after_stream(first, stream.get());
  StagingBlock* second = pool.acquire(1000, {});
  CHECK(second != first);
  pool.release_after_stream(second, stream.get());
  gate.open();
  stream.synchronize();
  CHECK(pool.counters().blocks == 2);
  StagingBlock* third = pool.acquire(1000, {});
  StagingBlock* fourth = pool.acquire(900, {});
  CHECK(pool.counters().blocks == 2);
  StagingPool::hand_back(third);
  StagingPool::hand_back(fourth);
}

TEST_CASE("a slow stream does not keep the blocks of a quick one") {
  StagingPool pool;
  const OwnedStream slow, quick;
  Gate gate(slow.get());
  pool.release_after_stream(pool.acquire(64, {}), slow.get());
  for (int i = 0; i < 20; ++i) {
    pool.release_after_stream(pool.acquire(64, {}), quick.get());
    quick.synchronize();
  }
  CHECK(pool.counters().blocks == 2);
  gate.open();
  slow.synchronize();
}

TEST_CASE("blocks handed back by many threads at once all come home") {
  StagingPool pool;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool] {
      for (int i = 0; i < 500; ++i) {
        StagingBlock* block = pool.acquire(static_cast<std::size_t>(100 + i), {});
        std::memset(block->memory, i, static_cast<std::size_t>(100 + i));
        StagingPool::hand_back(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pool.collect();
  CHECK(pool.counters().in_use == 0);
}

TEST_CASE("what a block keeps alive is let go when the block comes home and not before") {
  StagingPool pool;
  const OwnedStream stream;
  Gate gate(stream.get());
  auto guest = std::make_shared<int>(1);
  StagingBlock* block = pool.acquire(0, {});
  block->external = guest;
  pool.release_after_stream(block, stream.get());
  pool.collect();
  CHECK(guest.use_count() == 2);
  gate.open();
  stream.synchronize();
  pool.collect();
  CHECK(guest.use_count() == 1);
}
