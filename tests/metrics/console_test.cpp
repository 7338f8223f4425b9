// SPDX-License-Identifier: Apache-2.0
#include "metrics/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "metrics/throughput.h"

namespace hearth::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

// What a console prints, as one string.
template <typename Body>
std::string printed(Console::Style style, int64_t last_step, int64_t log_freq, int columns, Body body,
                    int64_t first_step = 0) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* stream = ::open_memstream(&text, &size);
  {
    Console console(stream, style, first_step, last_step, log_freq, columns);
    body(console);
  }
  std::fclose(stream);
  std::string result(text, size);
  std::free(text);
  return result;
}

StepRecord record(int64_t step) {
  StepRecord r;
  r.step = step;
  r.loss = 2.5;
  r.grad_norm = 0.75;
  r.lr = 3e-3;
  r.tokens_per_second = 12300;
  r.mfu = 0.321;
  return r;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Console, PlainLinesComeEveryLogFreqStepsAndForTheFirstAndLastStep) {
  const std::string text = printed(Console::Style::kLines, 25, 10, 0, [](Console& console) {
    for (int64_t step = 1; step <= 25; ++step) console.step(record(step));
  });
  EXPECT_EQ(count(text, "\n"), 4u) << text;
  for (const char* line : {"step 1/25 ", "step 10/25 ", "step 20/25 ", "step 25/25 "})
    EXPECT_EQ(count(text, line), 1u) << line;
  EXPECT_EQ(count(text, "\r"), 0u);
  EXPECT_THAT(text, HasSubstr("loss 2.5000  12.3 k tokens/s  grad norm 0.750  lr 3.00e-03  mfu 32.1%")) << text;
}

TEST(Console, AfterAResumeTheFirstStepHasALine) {
  const std::string text = printed(
      Console::Style::kLines, 100, 10, 0,
      [](Console& console) {
        for (int64_t step = 42; step <= 49; ++step) console.step(record(step));
      },
      41);
  EXPECT_EQ(text.find("step 42/100 "), 0u) << text;
  EXPECT_EQ(count(text, "\n"), 1u) << text;
}

TEST(Console, AStepThatWaitedForDataSaysSo) {
  const std::string text = printed(Console::Style::kLines, 2, 1, 0, [](Console& console) {
    StepRecord r = record(1);
    r.data_wait_s = 0.0005;
    console.step(r);
    r = record(2);
    r.data_wait_s = 1.5;
    r.step_s = 7;
    console.step(r);
  });
  EXPECT_EQ(count(text, "waited"), 1u) << text;
  EXPECT_EQ(count(text, "mfu 32.1%  waited 1.5 s for data  0.0 s left\n"), 1u) << text;
}

// "0.4 s left" or "12 us left", at the end of the text.
double seconds_left(const std::string& text) {
  const size_t end = text.rfind(" left"), unit = text.rfind(' ', end - 1), begin = text.rfind(' ', unit - 1);
  const double number = std::stod(text.substr(begin, unit - begin));
  const std::string name = text.substr(unit + 1, end - unit - 1);
  return name == "us" ? number * 1e-6 : name == "ms" ? number * 1e-3 : number;
}

// A run that continued after step 1000: three steps in 0.3 s or a little more, and one to go. The validation before the
// first step is not part of any step's time.
TEST(Console, TheTimeLeftIsTheMeanOfThisRunsStepsTimesThoseThatRemain) {
  for (const bool looks : {false, true}) {
    double begin_s = monotonic_seconds(), end_s = 0;
    const std::string text = printed(
        Console::Style::kLines, 1004, 1, 0,
        [&](Console& console) {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          if (looks) begin_s = monotonic_seconds();
          if (looks) console.step({.step = 1000, .validation_loss = 2.5});
          console.step(record(1003));
          end_s = monotonic_seconds();
        },
        1000);
    constexpr double kRounding = 0.051;
    EXPECT_GE(seconds_left(text), (looks ? 0 : 0.1) - kRounding) << text;
    EXPECT_LE(seconds_left(text), (end_s - begin_s) / 3 + kRounding) << text;
  }
}

TEST(Console, TheBarIsAsFullAsTheRunIsDone) {
  const std::string text =
      printed(Console::Style::kBar, 1000, 10, 200, [](Console& console) { console.step(record(250)); });
  EXPECT_THAT(text, HasSubstr(" 25% [" + std::string(10, '#') + std::string(30, '.') + "]")) << text;
}

TEST(Console, AWideTerminalAlsoShowsNormRateAndMfu) {
  const auto bar = [](int columns) {
    return printed(Console::Style::kBar, 1000, 10, columns, [](Console& console) { console.step(record(250)); });
  };
  EXPECT_THAT(bar(200), HasSubstr("12.3 k tokens/s  grad norm 0.750  lr 3.00e-03  mfu 32.1%  ")) << bar(200);
  EXPECT_THAT(bar(95), HasSubstr("12.3 k tokens/s  grad norm 0.750  ")) << bar(95);
  EXPECT_EQ(count(bar(95), "lr 3.00e-03"), 0u) << bar(95);
  EXPECT_EQ(count(bar(80), "grad norm"), 0u) << bar(80);
}

TEST(Console, TheBarIsNotRedrawnFasterThanTheEyeSees) {
  const std::string text = printed(Console::Style::kBar, 1000, 10, 80, [](Console& console) {
    for (int64_t step = 1; step <= 1000; ++step) console.step(record(step));
  });
  EXPECT_LT(count(text, "\x1b[K"), 500u);
}

TEST(Console, TheBarIsRedrawnInPlaceAndNeverWiderThanTheTerminal) {
  for (const int columns : {20, 60, 80, 200}) {
    const std::string text = printed(Console::Style::kBar, 3, 10, columns, [](Console& console) {
      for (int64_t step = 1; step <= 3; ++step) console.step(record(step));
    });
    EXPECT_EQ(count(text, "\n"), 1u) << "after the last bar, for what comes next";
    const std::string last = text.substr(text.rfind("\x1b[K") + 3);
    EXPECT_LT(last.size(), static_cast<size_t>(columns) + 1);
    EXPECT_EQ(last.substr(0, 5), "100% ");
  }
}

TEST(Console, AValidationLossStaysOnALineOfItsOwn) {
  for (const auto style : {Console::Style::kBar, Console::Style::kLines}) {
    const std::string text = printed(style, 100, 10, 80, [](Console& console) {
      StepRecord r = record(7);
      r.validation_loss = 1.25;
      console.step(r);
      console.step(record(8));
    });
    EXPECT_EQ(count(text, "step 7/100  validation loss 1.2500\n"), 1u) << text;
  }
}

TEST(Console, NamedSetsStandBehindTheirMean) {
  const std::string text = printed(Console::Style::kLines, 100, 10, 80, [](Console& console) {
    StepRecord r = record(7);
    r.validation_loss = 1.25;
    r.validation_losses = {{"web", 1}, {"books", 1.5}};
    console.step(r);
  });
  EXPECT_THAT(text, HasSubstr("step 7/100  validation loss 1.2500 (books 1.5000, web 1.0000)\n")) << text;
}

TEST(Console, AMessageDoesNotTearTheBar) {
  const std::string text = printed(Console::Style::kBar, 100, 10, 80, [](Console& console) {
    console.step(record(1));
    console.message("saved step-00000001");
  });
  // The bar is wiped, the message stands alone, the bar comes back.
  EXPECT_THAT(text, HasSubstr("\r\x1b[Ksaved step-00000001\n\r\x1b[K")) << text;
}

TEST(Console, TheSummarySaysWhatAStepIsMadeOf) {
  RunSummary s;
  s.parameters = s.active_parameters = 56'000'000;
  s.ranks = s.data_ranks = 2;
  s.accumulation_steps = 4;
  s.local_batch_size = 8;
  s.global_batch_size = 64;
  s.seq_len = 128;
  s.steps = 500;
  s.steps_per_epoch = 200;
  s.peak_flops = 2e11;
  const std::string text = format_summary(s);
  EXPECT_THAT(text, HasSubstr("56.0 M parameters (56000000)\n")) << text;
  s.active_parameters = 12'000'000;
  EXPECT_THAT(format_summary(s), HasSubstr("56.0 M parameters (56000000), a token uses 12.0 M\n"));
  EXPECT_THAT(text, HasSubstr("2 ranks x 4 micro-batches x 8 sequences x 128 tokens")) << text;
  s.ranks = 8;
  EXPECT_THAT(format_summary(s), HasSubstr("2 data-parallel ranks (of 8) x 4 micro-batches"));
  EXPECT_THAT(text, HasSubstr("500 steps, 4.10 M tokens, 2.50 epochs of 200.0 steps")) << text;
  EXPECT_THAT(text, Not(HasSubstr("% of the sequences"))) << text;
  s.sources = {{"data/web", 0.8, 1.25}, {"data/books", 0.2, 3}};
  const std::string mixed = format_summary(s);
  EXPECT_THAT(mixed, HasSubstr(" 80.00 % of the sequences, 1.25 epochs of data/web\n")) << mixed;
  EXPECT_THAT(mixed, HasSubstr(" 20.00 % of the sequences, 3.00 epochs of data/books\n")) << mixed;
}

TEST(Throughput, MfuIsModelFlopsOverThePeak) {
  const Throughput t{4096, 1e6, 1e12};
  EXPECT_DOUBLE_EQ(t.tokens_per_second(2.0), 2048);
  EXPECT_DOUBLE_EQ(t.mfu(2.0), 2048 * 1e6 / 1e12);
  EXPECT_DOUBLE_EQ(t.flops_per_second(2.0), 2048 * 1e6);
  EXPECT_DOUBLE_EQ(t.mfu(1e-3), 1) << "a share that cannot be is not shown";
}

TEST(Throughput, PeakMemoryCountsWhatWasTouched) {
  const int64_t before = peak_memory_bytes();
  const size_t size = size_t{64} << 20;
  const auto block = std::make_unique<char[]>(size);
  volatile char* touched = block.get();  // or clang leaves the block out
  for (size_t i = 0; i < size; i += 4096) touched[i] = 1;
  EXPECT_GE(peak_memory_bytes(), before + (int64_t{48} << 20));
}

}  // namespace
}  // namespace hearth::metrics
