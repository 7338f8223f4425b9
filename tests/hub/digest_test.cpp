// SPDX-License-Identifier: Apache-2.0
#include "hub/digest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/environment.h"
#include "support/text_file.h"

namespace hearth::hub {
namespace {

// FIPS 180-4's examples, and git's own hashes: `printf abc | git hash-object --stdin`.
TEST(Digest, OfTheStandardsExamples) {
  const test::ScratchFolder scratch;
  std::atomic<int64_t> done = 0;
  const auto hash_of = [&](std::string_view text, DigestKind kind) {
    test::write_text(scratch / "file", text);
    return digest_of_file(scratch / "file", kind, done).hex;
  };
  const std::string many(1000000, 'a');
  EXPECT_EQ(hash_of("abc", DigestKind::kSha256), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("", DigestKind::kSha256), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of(many, DigestKind::kSha256), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(hash_of("abc", DigestKind::kGitBlob), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  EXPECT_EQ(hash_of("", DigestKind::kGitBlob), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

// A host's settings of OpenSSL do not count: the program may have been copied there.
TEST(Digest, ReadsNoSettingsOfTheHost) {
  const test::ScratchFolder scratch;
  test::write_text(scratch / "openssl.cnf",
                   "openssl_conf = all\n[all]\nalg_section = rules\n[rules]\ndefault_properties = fips=yes\n");
  const Path program = std::filesystem::read_symlink("/proc/self/exe");
  const test::CommandResult result =
      test::run_command(fmt::format("OPENSSL_CONF={} {} --gtest_filter=Digest.OfTheStandardsExamples",
                                    (scratch / "openssl.cnf").string(), program.string()));
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

// Python's own code (hashlib would call the same library), over every length of two blocks and of more than one piece
// of a file.
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
sha256, sha1 = map(hashlib.__get_builtin_constructor, ("sha256", "sha1"))
for i in range(132):
    data = open(f"{sys.argv[1]}/{i}.bin", "rb").read()
    print(sha256(data).hexdigest(), sha1(b"blob %d\0" % len(data) + data).hexdigest())
)");
  const std::string command = "python3 " + (scratch / "script.py").string() + " " + scratch.path().string();
  const test::CommandResult theirs = test::run_command(command);
  EXPECT_EQ(ours, theirs.output);
  EXPECT_EQ(done, 2 * (131 * 65 + (4 << 20) + 5));
}

}  // namespace
}  // namespace hearth::hub
