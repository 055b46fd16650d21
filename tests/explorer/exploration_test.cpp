// What an exploration promises about order, memory and progress.
#include <hiphost/explore.hpp>

#include <set>
#include <string>

#include "support.hpp"

namespace {

using hiphost::Exploration;

std::string* order = nullptr;
char alphabet[] = "abcdefghijklmnopqrstuvwxyz";

void append(void* letter) { order->push_back(*static_cast<const char*>(letter)); }

void enqueue_letter(hipStream_t stream, char letter) {
  CHECK_OK(hipLaunchHostFunc(stream, append, &alphabet[letter - 'a']));
}

// Three streams with two letters each.
std::string letters_in_order(std::uint64_t seed, std::uint64_t* hash = nullptr) {
  std::string letters;
  order = &letters;
  const test::Stream a, b, c;
  Exploration exploration(seed);
  for (const char* pair : {"ad", "be", "cf"}) {
    enqueue_letter(pair[0] == 'a' ? a : pair[0] == 'b' ? b : c, pair[0]);
    enqueue_letter(pair[0] == 'a' ? a : pair[0] == 'b' ? b : c, pair[1]);
  }
  const hiphost::ExplorationReport report = exploration.finish();
  CHECK_EQ(report.tasks, 6);
  if (hash != nullptr) *hash = report.schedule_hash;
  return letters;
}

void record_block(int* out) { out[0] = out[0] * 10 + static_cast<int>(hiphost::block_idx().x); }

}  // namespace

TEST_CASE("the same seed gives the same schedule, and its hash tells schedules apart") {
  std::set<std::string> orders;
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    std::uint64_t hash = 0, again = 0;
    const std::string letters = letters_in_order(seed, &hash);
    CHECK_EQ(letters_in_order(seed, &again), letters);
    CHECK_EQ(again, hash);
    CHECK_LT(letters.find('a'), letters.find('d'));
    CHECK_LT(letters.find('b'), letters.find('e'));
    CHECK_LT(letters.find('c'), letters.find('f'));
    orders.insert(letters);
    hashes.insert(hash);
  }
  // 6! / 2!^3 orders respect the streams.
  CHECK_EQ(orders.size(), 90);
  CHECK_EQ(hashes.size(), orders.size());
}

TEST_CASE("nothing runs unless the program waits or calls, whatever time passes") {
  bool early = false, late = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::string letters;
    order = &letters;
    const test::Stream stream;
    Exploration exploration(seed);
    enqueue_letter(stream, 'a');
    const bool ran_early = !letters.empty();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK_EQ(!letters.empty(), ran_early);
    CHECK_OK(hipStreamSynchronize(stream));
    CHECK_EQ(letters, "a");
    enqueue_letter(stream, 'b');
    (void)hipStreamQuery(stream);
    (letters.size() == 2 ? early : late) = true;
  }
  CHECK(early);
  CHECK(late);
}

TEST_CASE("who polls sees progress in every seed") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::string letters;
    order = &letters;
    const test::Stream stream;
    Exploration exploration(seed);
    for (int i = 0; i < 5; ++i) enqueue_letter(stream, 'x');
    CHECK(test::eventually([&] { return hipStreamQuery(stream) == hipSuccess; }));
    CHECK_EQ(letters.size(), 5);
  }
}

TEST_CASE("fresh and freed memory reads as NaN bytes") {
  Exploration exploration(1);
  unsigned char* pinned = nullptr;
  REQUIRE_OK(hipHostMalloc(&pinned, 64));
  for (int i = 0; i < 64; ++i) CHECK_EQ(pinned[i], 0xFF);
  std::fill_n(pinned, 64, static_cast<unsigned char>(1));
  REQUIRE_OK(hipHostFree(pinned));
  // Not handed out again while the exploration lasts.
  unsigned char* next = nullptr;
  REQUIRE_OK(hipHostMalloc(&next, 64));
  CHECK_NE(next, pinned);
  REQUIRE_OK(hipHostFree(next));
}

TEST_CASE("blocks run in other orders only where the kernel says that it allows that") {
  test::Buffer<int> out(1, test::Where::kPinned);
  const test::Stream stream;
  for (const bool any_order : {false, true}) {
    (void)hiphost::kernel(record_block, {"record_block", nullptr, any_order});
    std::set<int> seen;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Exploration exploration(seed);
      *out.get() = 0;
      CHECK_OK(hiphost::launch(record_block, dim3(4), dim3(1), 0, stream, out.get()));
      CHECK_OK(hipStreamSynchronize(stream));
      seen.insert(*out.get());
    }
    if (any_order) {
      CHECK_GT(seen.size(), 5);
    } else {
      CHECK_EQ(seen, std::set<int>{123});
    }
  }
}

TEST_CASE("several host threads may enqueue and wait during an exploration") {
  Exploration exploration(3);
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::atomic<int> ran{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const test::Stream stream;
      for (int i = 0; i < 100; ++i) CHECK_OK(hipLaunchHostFunc(stream, test::count_call, &ran));
      CHECK_OK(hipStreamSynchronize(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(ran.load(), 400);
  CHECK_EQ(exploration.finish().tasks, 400);
}

TEST_CASE("destructors of user objects run within the exploration") {
  Exploration exploration(5);
  std::atomic<int> destroyed{0};
  hipGraph_t graph = nullptr;
  REQUIRE_OK(hipGraphCreate(&graph, 0));
  hipUserObject_t object = nullptr;
  REQUIRE_OK(hipUserObjectCreate(&object, &destroyed, test::count_call, 1, hipUserObjectNoDestructorSync));
  REQUIRE_OK(hipGraphRetainUserObject(graph, object, 1, hipGraphUserObjectMove));
  REQUIRE_OK(hipGraphDestroy(graph));
  CHECK(exploration.finish().clean());
  CHECK_EQ(destroyed.load(), 1);
}

TEST_CASE("after an exploration work runs by itself again") {
  { Exploration exploration(1); }
  const test::Stream stream;
  std::atomic<int> ran{0};
  CHECK_OK(hipLaunchHostFunc(stream, test::count_call, &ran));
  CHECK(test::eventually([&] { return ran.load() == 1; }));
}
