// SPDX-License-Identifier: Apache-2.0
// base/file.h with paths of a store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/copy_tree.h"
#include "base/error.h"
#include "base/file.h"
#include "base/object_file.h"
#include "base/random.h"
#include "s3_server.h"
#include "support/errors.h"
#include "support/hearth_command.h"

namespace hearth {
namespace {

using test::error_of;
using test::S3Server;
using testing::ElementsAre;
using testing::HasSubstr;

std::string random_text(size_t size, std::string_view name) {
  std::string text(size, '\0');
  const RandomKey key = random_key(3, name);
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(random_u64(key, i));
  return text;
}

void write_object(const Path& path, std::string_view content) {
  File file = File::create(path);
  file.write(content);
  file.close();
}

TEST(Object, IsWrittenWholeAndReadInParts) {
  HEARTH_NEEDS_STORE();
  const Path path = "s3://bucket/a folder/x+y=\xc3\xa9.bin";
  const std::string content = random_text((size_t{25} << 20) + 13, "large");  // three parts of Arrow's uploads
  write_object(path, content);
  // What the server has.
  EXPECT_EQ(S3Server::get().content("a folder/x+y=\xc3\xa9.bin"), content);
  EXPECT_TRUE(read_file(path) == content);
  const File file = File::open_read(path);
  EXPECT_EQ(file.size_bytes(), std::ssize(content));
  for (const auto& [at, length] :
       {std::pair<size_t, size_t>{0, 1}, {5, 100}, {9'999'990, 40}, {content.size() - 3, 3}, {1, 20'000'000}, {7, 0}}) {
    std::string part(length, '\0');
    file.read_at(static_cast<int64_t>(at), std::as_writable_bytes(std::span(part)));
    EXPECT_TRUE(part == content.substr(at, length)) << at << " " << length;
  }
  std::string beyond(4, '\0');
  EXPECT_EQ(error_of([&] { file.read_at(std::ssize(content) - 3, std::as_writable_bytes(std::span(beyond))); }).code(),
            ExitCode::kDamaged);
}

TEST(Object, ReadAheadMakesLaterReadsFree) {
  HEARTH_NEEDS_STORE();
  const std::string content = random_text(3 << 20, "ahead");
  write_object("s3://bucket/ahead.bin", content);
  const File file = File::open_read("s3://bucket/ahead.bin");
  file.read_ahead(100, 2 << 20);
  S3Server::get().take_log();
  std::string part(1000, '\0');
  for (int64_t at = 100; at < 2 << 20; at += 100'000) {
    file.read_at(at, std::as_writable_bytes(std::span(part)));
    EXPECT_EQ(part, content.substr(static_cast<size_t>(at), part.size()));
  }
  EXPECT_THAT(S3Server::get().take_log(), testing::IsEmpty());
}

TEST(Object, FoldersAreWhatIsUnderThem) {
  HEARTH_NEEDS_STORE();
  EXPECT_FALSE(path_exists("s3://bucket/tree"));
  for (const char* name : {"s3://bucket/tree/b.txt", "s3://bucket/tree/a.txt", "s3://bucket/tree/deep/er/c.txt"})
    write_object(name, name);
  EXPECT_TRUE(folder_exists("s3://bucket/tree"));
  EXPECT_TRUE(folder_exists("s3://bucket/tree/"));
  EXPECT_FALSE(folder_exists("s3://bucket/tree/a.txt"));
  EXPECT_THAT(list_folder("s3://bucket/tree"), ElementsAre("a.txt", "b.txt", "deep"));
  EXPECT_THAT(list_folders("s3://bucket/tree"), ElementsAre("deep"));
  EXPECT_EQ(folder_bytes("s3://bucket/tree"), 22 + 22 + 30);
  remove_file("s3://bucket/tree/a.txt");
  remove_file("s3://bucket/tree/a.txt");  // missing is fine
  EXPECT_THAT(list_folder("s3://bucket/tree"), ElementsAre("b.txt", "deep"));
  remove_tree("s3://bucket/tree");
  remove_tree("s3://bucket/tree");
  EXPECT_FALSE(path_exists("s3://bucket/tree"));
  EXPECT_EQ(error_of([] { list_folder("s3://bucket/tree"); }).code(), ExitCode::kUser);
}

TEST(Object, IsNotThereWithoutClose) {
  HEARTH_NEEDS_STORE();
  {
    File file = File::create("s3://bucket/half.bin");
    file.write(random_text(size_t{12} << 20, "half"));  // a part is uploaded
  }
  EXPECT_FALSE(path_exists("s3://bucket/half.bin"));
}

TEST(Object, OneOfManyWritersCreatesANewOne) {
  HEARTH_NEEDS_STORE();
  std::atomic<int> created{0}, refused{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < 6; ++i)
    writers.emplace_back([&, i] {
      try {
        put_new_object("s3://bucket/once.json", fmt::format("writer {}", i));
        ++created;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kHardware);
        EXPECT_THAT(error.what(), HasSubstr("another writer"));
        ++refused;
      }
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(created, 1);
  EXPECT_EQ(refused, 5);
}

// The answer was lost, so the second try finds the object that the first one made.
TEST(Object, ALostAnswerIsNoOtherWriter) {
  HEARTH_NEEDS_STORE();
  S3Server::get().set_faults("PUT lost.json 1 1 lost");
  put_new_object("s3://bucket/lost.json", "mine");
  EXPECT_EQ(read_file("s3://bucket/lost.json"), "mine");
}

TEST(Object, AStoreWithoutTheConditionIsWrittenAnyway) {
  HEARTH_NEEDS_STORE();
  S3Server::get().set_faults("PUT plain.json 1 1 501");
  put_new_object("s3://bucket/plain.json", "text");
  EXPECT_EQ(read_file("s3://bucket/plain.json"), "text");
}

TEST(Object, FaultsOfAMomentAreBridged) {
  HEARTH_NEEDS_STORE();
  const std::string content = random_text(size_t{12} << 20, "bridged");
  for (const char* action : {"500", "503", "reset", "cut"}) {
    S3Server::get().set_faults(fmt::format("* bridged 1 1 {0}\n* bridged 4 4 {0}\n* bridged 7 7 {0}", action));
    write_object("s3://bucket/bridged.bin", content);
    EXPECT_TRUE(read_file("s3://bucket/bridged.bin") == content) << action;
  }
}

TEST(Object, ErrorsSayWhatToDo) {
  HEARTH_NEEDS_STORE();
  write_object("s3://bucket/there/x", "x");
  const Error missing = error_of([] { read_file("s3://bucket/missing/x"); });
  EXPECT_EQ(missing.code(), ExitCode::kUser);
  EXPECT_THAT(missing.what(), HasSubstr("s3://bucket/missing/x"));
  EXPECT_EQ(error_of([] { read_file("s3://nobucket/x"); }).code(), ExitCode::kUser);
  EXPECT_THAT(error_of([] { read_file("s3://"); }).what(), HasSubstr("names no bucket"));

  S3Server::get().set_faults("* there 1 999 500");
  const Error outage = error_of([] { read_file("s3://bucket/there/x"); });
  EXPECT_EQ(outage.code(), ExitCode::kHardware) << outage.what();
  S3Server::get().set_faults("");

  const test::CommandResult wrong = test::run_hearth("verify s3://bucket/there", "AWS_SECRET_ACCESS_KEY=topsecret");
  EXPECT_EQ(wrong.exit_code, 2) << wrong.output;
  EXPECT_THAT(wrong.output, testing::Not(HasSubstr("topsecret")));
  const test::CommandResult nobody =
      test::run_hearth("verify s3://bucket/there", "AWS_ENDPOINT_URL=http://127.0.0.1:1");
  EXPECT_EQ(nobody.exit_code, 4) << nobody.output;
  const test::CommandResult scheme = test::run_hearth("verify s3://bucket/there", "AWS_ENDPOINT_URL=127.0.0.1:1");
  EXPECT_EQ(scheme.exit_code, 2) << scheme.output;
  EXPECT_THAT(scheme.output, HasSubstr("neither http:// nor https://"));
}

// A server that takes a request and never answers. The time-out counts from the last byte.
TEST(Object, AHangIsBridgedAndALastingOneEndsWithTheName) {
  HEARTH_NEEDS_STORE();
  S3Server& server = S3Server::get();
  const test::ScratchFolder scratch;
  make_folders(scratch / "in");
  test::write_text(scratch / "in" / "f", "12345");
  const std::string up = fmt::format("copy {} s3://bucket/hangs", (scratch / "in").string());
  const std::string down = fmt::format("copy s3://bucket/hangs {}", (scratch / "out").string());
  const auto expect_hang = [&](const std::string& command, const std::string& attempts) {
    const test::CommandResult result =
        test::run_hearth(command, "HEARTH_S3_REQUEST_TIMEOUT=1 AWS_MAX_ATTEMPTS=" + attempts);
    EXPECT_EQ(result.exit_code, 4) << result.output;
    EXPECT_THAT(result.output, HasSubstr("s3://bucket/hangs/f"));
  };
  server.set_faults("PUT hangs 1 99 hang");
  expect_hang(up, "2");
  server.set_faults("PUT hangs 1 1 hang");
  const test::CommandResult put = test::run_hearth(up, "HEARTH_S3_REQUEST_TIMEOUT=1");
  EXPECT_EQ(put.exit_code, 0) << put.output;
  EXPECT_EQ(server.content("hangs/f"), "12345");

  server.set_faults("GET hangs/f 1 99 hang");
  expect_hang(down, "1");
  server.set_faults("GET hangs/f 1 1 hang");
  const test::CommandResult get = test::run_hearth(down, "HEARTH_S3_REQUEST_TIMEOUT=1");
  EXPECT_EQ(get.exit_code, 0) << get.output;
  EXPECT_EQ(read_file(scratch / "out" / "f"), "12345");
}

// A host that does not even take the connection: its queue is full.
TEST(Object, AHostThatTakesNoConnectionEndsTheCommand) {
  HEARTH_NEEDS_STORE();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(server, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(server, 0), 0);
  ASSERT_EQ(::getsockname(server, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::vector<int> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ::connect(clients.back(), reinterpret_cast<sockaddr*>(&address), size);
  }
  const test::CommandResult result = test::run_hearth(
      "verify s3://bucket/there", fmt::format("AWS_ENDPOINT_URL=http://127.0.0.1:{} AWS_MAX_ATTEMPTS=1 "
                                              "HEARTH_S3_CONNECT_TIMEOUT=1 HEARTH_S3_REQUEST_TIMEOUT=3600",
                                              ::ntohs(address.sin_port)));
  EXPECT_EQ(result.exit_code, 4) << result.output;
  EXPECT_THAT(result.output, HasSubstr("s3://bucket/there"));
  for (const int client : clients) ::close(client);
  ::close(server);
}

TEST(Object, WrongSettingsAreNamed) {
  HEARTH_NEEDS_STORE();
  for (const std::string setting :
       {"AWS_MAX_ATTEMPTS=0", "AWS_MAX_ATTEMPTS=ten", "AWS_MAX_ATTEMPTS=3x", "HEARTH_S3_REQUEST_TIMEOUT=-1",
        "HEARTH_S3_REQUEST_TIMEOUT=0.5", "HEARTH_S3_CONNECT_TIMEOUT=99999999999999999999"}) {
    const test::CommandResult result = test::run_hearth("verify s3://bucket/there", setting);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    std::string named = setting;
    EXPECT_THAT(result.output, HasSubstr(named.replace(named.find('='), 1, " = ")));
  }
  test::write_text(S3Server::get() / "tries", "[default]\nmax_attempts = many\n");
  const test::CommandResult profile =
      test::run_command(fmt::format("env -u AWS_MAX_ATTEMPTS AWS_CONFIG_FILE={} {} verify s3://bucket/there",
                                    (S3Server::get() / "tries").string(), test::hearth_binary()));
  EXPECT_EQ(profile.exit_code, 2);
  EXPECT_THAT(profile.output, HasSubstr("max_attempts of the profile = many"));
}

TEST(Object, TheProfileOfTheAwsToolsGivesTheEndpoint) {
  HEARTH_NEEDS_STORE();
  const S3Server& server = S3Server::get();
  test::write_text(server / "config", fmt::format("[profile other]\nendpoint_url = http://127.0.0.1:1\n"
                                                  "[profile mine]\nregion = eu-west-1\nendpoint_url = {}\n",
                                                  std::getenv("AWS_ENDPOINT_URL")));
  write_object("s3://bucket/profile/f", "12345");
  const std::string common = fmt::format("env -u AWS_ENDPOINT_URL AWS_CONFIG_FILE={} ", (server / "config").string());
  const std::string copy = " " + test::hearth_binary() + " copy s3://bucket/profile " + (server / "profile").string();
  const test::CommandResult mine = test::run_command(common + "AWS_PROFILE=mine" + copy);
  EXPECT_EQ(mine.exit_code, 0) << mine.output;
  EXPECT_EQ(read_file(server / "profile" / "f"), "12345");
  EXPECT_EQ(test::run_command(common + "AWS_PROFILE=other" + copy).exit_code, 4);
}

TEST(CopyTree, ReadsBackAndWritesAgainWhatDiffers) {
  HEARTH_NEEDS_STORE();
  const test::ScratchFolder scratch;
  const std::string weights = random_text(100'000, "weights");
  make_folders(scratch / "in" / "sub");
  test::write_text(scratch / "in" / "hearth.json", "last");
  test::write_text(scratch / "in" / "sub" / "weights.bin", weights);
  S3Server& server = S3Server::get();
  server.set_faults("PUT weights 1 1 flip");
  server.take_log();
  CopyProgress progress;
  const CopyResult up = copy_tree(scratch / "in", "s3://bucket/copied", progress);
  EXPECT_EQ(up.files, 2);
  EXPECT_EQ(up.bytes, 100'004);
  EXPECT_EQ(progress.done_bytes, progress.all_bytes);
  EXPECT_EQ(server.content("copied/sub/weights.bin"), weights);
  std::vector<std::string> puts;
  for (const std::string& line : server.take_log())
    if (line.starts_with("PUT")) puts.push_back(line);
  EXPECT_THAT(puts, ElementsAre(HasSubstr("weights"), HasSubstr("weights"), HasSubstr("hearth.json")));

  // Down, with a flip on the way.
  server.set_faults("GET weights 1 1 rflip");
  copy_tree("s3://bucket/copied", scratch / "out", progress);
  EXPECT_EQ(read_file(scratch / "out" / "sub" / "weights.bin"), weights);
  EXPECT_EQ(copy_tree("s3://bucket/copied", scratch / "out", progress).there, 2);

  // A disk that always lies is an error, and the folder is not taken for a whole one.
  server.set_faults("PUT weights 1 999 flip");
  const Error error = error_of([&] { copy_tree(scratch / "in", "s3://bucket/lies", progress); });
  EXPECT_EQ(error.code(), ExitCode::kHardware);
  EXPECT_THAT(error.what(), HasSubstr("weights.bin"));
  EXPECT_FALSE(path_exists("s3://bucket/lies/hearth.json"));
}

}  // namespace
}  // namespace hearth
