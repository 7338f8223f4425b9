// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/error.h"
#include "support/environment.h"
#include "support/errors.h"

namespace hearth {
namespace {

using testing::HasSubstr;

// proc_pid_status(5): "Name:", the state, ..., "Pid:". Such files have size 0 until they are read.
TEST(File, WhatTheKernelMakesUpIsReadToItsEnd) {
  ASSERT_EQ(std::filesystem::file_size("/proc/self/status"), 0U);
  const std::string status = read_file("/proc/self/status");
  EXPECT_TRUE(status.starts_with("Name:\t")) << status;
  EXPECT_THAT(status, HasSubstr("\nPid:\t" + std::to_string(::getpid()) + "\n")) << status;
  EXPECT_TRUE(status.ends_with("\n")) << status;
}

// Opening a pipe would wait for a writer.
TEST(File, OnlyAFileIsOpenedForReading) {
  const test::ScratchFolder scratch;
  const auto refusal = [&](const Path& path) {
    const Error e = test::error_of([&] { File::open_read(path); });
    EXPECT_EQ(e.code(), ExitCode::kUser) << e.what();
    EXPECT_EQ(test::error_of([&] { read_file(path); }).message(), e.message());
    EXPECT_EQ(test::error_of([&] { MappedFile{path}; }).message(), e.message());
    return e.message();
  };
  const Path pipe = scratch / "pipe", socket = scratch / "socket";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal(pipe), pipe.string() + " is a pipe, not a file");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{AF_UNIX, {}};
  ASSERT_LT(socket.string().size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, socket.c_str());
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(refusal(socket), socket.string() + " is a socket, not a file");
  ::close(fd);
  EXPECT_EQ(refusal("/dev/zero"), "/dev/zero is a device, not a file");
  EXPECT_EQ(refusal(scratch.path()), scratch.path().string() + " is a folder, not a file");
  std::filesystem::create_symlink(pipe, scratch / "link");
  EXPECT_EQ(refusal(scratch / "link"), (scratch / "link").string() + " is a pipe, not a file");
  EXPECT_THAT(test::error_of([&] { File::open_read(scratch / "nothing"); }).message(), HasSubstr("cannot open"));
}

TEST(File, AStreamIsReadToItsEnd) {
  const test::ScratchFolder scratch;
  const Path pipe = scratch / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string text = std::string(100'000, 'a') + "end";
  std::thread writer([&] {
    File file = File::open_append(pipe);
    file.write(text);
  });
  EXPECT_EQ(read_stream(pipe), text);
  writer.join();
  write_file_atomic(scratch / "file", text);
  EXPECT_EQ(read_stream(scratch / "file"), text);
  EXPECT_EQ(read_stream("/dev/null"), "");
  EXPECT_EQ(test::error_of([&] { read_stream(scratch.path()); }).code(), ExitCode::kUser);
}

TEST(RemoveTree, LeavesTheTargetOfALink) {
  const test::ScratchFolder scratch;
  make_folders(scratch / "archive");
  write_file_atomic(scratch / "archive" / "weights", "ours");
  std::filesystem::create_directory_symlink(scratch / "archive", scratch / "step");
  remove_tree(scratch / "step");
  EXPECT_FALSE(std::filesystem::is_symlink(scratch / "step"));
  EXPECT_EQ(read_file(scratch / "archive" / "weights"), "ours");
}

}  // namespace
}  // namespace hearth
