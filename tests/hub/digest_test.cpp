#include "hub/digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/environment.h"
#include "support/text_file.h"

namespace hearth::hub {
namespace {

template <class Hash>
std::string hash_of(std::string_view text, size_t piece) {
  Hash hash;
  for (size_t at = 0; at < text.size(); at += piece) hash.update(std::as_bytes(std::span(text.substr(at, piece))));
  return hash.finish();
}

// FIPS 180-4's examples.
TEST(Digest, OfTheStandardsExamples) {
  EXPECT_EQ(hash_of<Sha256>("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of<Sha256>("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of<Sha1>("abc", 3), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hash_of<Sha1>(std::string(1000000, 'a'), 999), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
  EXPECT_EQ(hash_of<Sha256>(std::string(1000000, 'a'), 65),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Python's hashlib, over every length of two blocks and of more than one piece of a file.
TEST(Digest, OfFilesEqualsPythons) {
  const test::ScratchFolder scratch;
  std::string ours;
  std::string content;
  std::atomic<int64_t> done = 0;
  for (int length = 0; length <= 130; ++length) {
    const Path path = scratch / (std::to_string(length) + ".bin");
    test::write_text(path, content);
    ours += digest_of_file(path, DigestKind::kSha256, done).hex + " ";
    ours += digest_of_file(path, DigestKind::kGitBlob, done).hex + "\n";
    content += static_cast<char>(length * 7);
  }
  const Path large = scratch / "131.bin";
  test::write_text(large, std::string((4 << 20) + 5, 'q'));
  ours += digest_of_file(large, DigestKind::kSha256, done).hex + " ";
  ours += digest_of_file(large, DigestKind::kGitBlob, done).hex + "\n";
  test::write_text(scratch / "script.py", R"(
import hashlib, sys
for i in range(132):
    data = open(f"{sys.argv[1]}/{i}.bin", "rb").read()
    print(hashlib.sha256(data).hexdigest(), hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest())
)");
  const std::string command = "python3 " + (scratch / "script.py").string() + " " + scratch.path().string();
  const test::CommandResult theirs = test::run_command(command);
  EXPECT_EQ(ours, theirs.output);
  EXPECT_EQ(done, 2 * (131 * 65 + (4 << 20) + 5));
}

}  // namespace
}  // namespace hearth::hub
