// Scripts are read as bash runs them: each case is run by bash, too, with a program that prints its words.
#include "config/import/shell.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/text.h"
#include "support/environment.h"

namespace hearth::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Commands whose first word is `train`, a line each: "train|--lr|1e-4".
std::vector<std::string> by_reader(const std::string& script) {
  std::vector<std::string> lines;
  for (const ShellCommand& command : read_shell(script).commands) {
    if (command.words.front().text != "train") continue;
    std::string line;
    for (const ShellWord& word : command.words) line += (line.empty() ? "" : "|") + word.text;
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> by_bash(const std::string& script) {
  const test::ScratchFolder folder;
  write_file_atomic(folder.path() / "script.sh", "train() { printf train; printf '|%s' \"$@\"; echo; }\n" + script);
  const std::string command =
      fmt::format("cd '{0}' && env -i PATH=/usr/bin:/bin bash script.sh > out 2> err", folder.path().string());
  EXPECT_EQ(std::system(command.c_str()), 0) << read_file(folder.path() / "err");  // NOLINT(concurrency-mt-unsafe)
  std::vector<std::string> lines = split_lines(read_file(folder.path() / "out"));
  std::erase(lines, "");
  return lines;
}

TEST(Shell, WordsAreThoseOfBash) {
  const char* const kScripts[] = {
      "LR=1.5e-4 # a comment\ntrain --lr $LR --name \"a b\" 'c $LR' \"$LR\" x\\ y \"\" ''\n",
      "A=1; B=\"$A and ${A}2\"; C='$A'\ntrain $B \"$B\" $C \"${C}\"\n",
      "train --a 1 \\\n  --b 2 \\\n  --c=3 # none\n",
      "EMPTY=\ntrain a $EMPTY \"$EMPTY\" b\n",
      "ARGS=(--a 1\n  --b \"x y\" # two\n  '--c' z)\nARGS+=(--d)\nMORE=(\"${ARGS[@]}\" --e)\n"
      "train ${ARGS[@]}\ntrain \"${MORE[@]}\"\ntrain \"${ARGS[*]}\" ${ARGS[1]} ${#ARGS[@]} $ARGS\n",
      "LIST=(\"--a 1\" \"--b 2\")\ntrain ${LIST[@]}\ntrain \"${LIST[@]}\"\n",
      "N=8; NODES=4\ntrain $((N * NODES)) $(( $N*(NODES+1)/3%7 )) $((-N + 2)) $((N>4&&NODES==4)) $((N-3-2))\n",
      "X=${Y:-fallback}; Z=${Q:=\"two words\"}\ntrain $X $Z \"$Q\" ${X:+set} end\n",
      "A=x; A+=y; A+=\" z\"\ntrain \"$A\" ${#A}\n",
      "GPUS=8\nif [ $GPUS -gt 4 ]; then M=big; else M=small; fi\ntrain $M\n"
      "if [[ \"$M\" == \"big\" && -n $GPUS ]] || [[ -z $GPUS ]]; then train yes; fi\n"
      "if [ \"$M\" = small ]; then train no; elif [ ! -z \"$M\" ]; then train elif; else train else; fi\n",
      "[ 1 -eq 1 ] && train and\n[ 1 -eq 2 ] && train never\n[ 1 -eq 2 ] || train or\ntrue && false || train last\n",
      "case mistral-7b in\n  llama*|gpt) S=1 ;;\n  mistral-*) S=2 ;;\n  *) S=3 ;;\nesac\ntrain $S\n",
      "f() { local T=$1; train in \"$T\" \"$2\" $#; }\nf one 'two three'\nfunction g { train g \"$@\"; }\ng a 'b c'\n",
      "CMD=\"train --x 1\"\n$CMD --y 2\neval \"$CMD --z '3 4'\"\n(A=inner; train $A)\n{ train group; }\n",
      "cat <<END > /dev/null\ntrain never $A 'an open quote\nEND\ntrain after 2>&1 | cat\ntrain redirected --a < "
      "/dev/null\n",
      "A=5\nunset A\ntrain \"${A:-gone}\"\nexport B=1 C=\"2 3\"\ntrain $B \"$C\"\nif true; then\n  train before\n  "
      "exit 0\nfi\n"
      "train never\n",
      "OPTS=\" \\\n  --name \"a/b\" \\\n  --n 3 \\\n  \"\ntrain $OPTS --last\n",
      "A='it'\"'\"'s'; B=$A\"-$A\"\ntrain \"$B\" a\"b\"'c'd \\$A \"\\$A \\\\ \\x\"\n",
      "! [ a = b ] && train not\nif ! false; then train fine; fi\n(( 3 > 2 )) && train numbers\n",
      "V=1 train --env\nif [ a != b ] # why\nthen\ntrain comment\nfi\ntrain a#b #c\n",
      "A=()\ntrain \"$@\" \"${A[@]}\" \"x$@\" \"\"\"$@\" \"$*\" ${A[@]} end\n",
      "LR=1\nwhile [[ $# -gt 0 ]]; do case $1 in --lr) LR=$2; shift 2 ;; *) shift ;; esac; done\n"
      "for A in \"$@\"; do LR=2; done\nuntil true; do LR=3; done\ntrain $LR\n",
      "go() { local P=$1 Q; shift; Q=in; train $P \"$@\" $#; shift 5 || true; train $# $Q; }\nP=out; Q=side\n"
      "go run.py --a 'b c'\ntrain $P $Q\nset -- x 'y z'\ntrain \"$@\" $1\n",
      "for M in a/b; do for S in 'x y'; do train $M \"$S\"; done; done\ntrain $M $S\nfor E in; do train no; done\n"
      "for C in 1; do [ $C = 1 ] && continue; train no; done\nf() { for C in 1; do return; done; train no; }\nf\ntrain "
      "end\n",
      "f() { local A=$1 B=$2; train \"$A\" \"$B\" \"${3:-c}\" $4 end; }\nf one\n",
      "exec 3> >(cat > /dev/null)\nread -r X < <(echo hidden)\ntrain after\n",
      "time true && train timed\ntime -p [ 1 -eq 1 ] && train too\n! time false && train negated\n",
      "bash -c 'exit 1' || true\nX=1; bash -c 'X=2'\ntrain $X\nquit() { exit 0; }\nquit\ntrain never\n",
  };
  for (const std::string script : kScripts) EXPECT_EQ(by_reader(script), by_bash(script)) << script;
}

TEST(Shell, WhatIsNotKnownHasItsReasonAndOnlyThat) {
  const ShellScript script = read_shell(
      "A=1\nHOST=$(hostname)\nif [ -n \"$SLURM_NTASKS\" ]; then\n  A=2\n  B=3\nfi\n"
      "for I in 1 2; do\n  LAST=$I\ndone\ntrain $HOST $A --b $B $UNSET x$LAST ${1} known\n");
  ASSERT_EQ(script.commands.size(), 1u);
  const std::vector<ShellWord>& words = script.commands[0].words;
  ASSERT_EQ(words.size(), 9u);
  EXPECT_EQ(words[1].unknown, "it is the output of a command, `hostname`");
  EXPECT_EQ(words[2].unknown, "line 4 may set A: it depends on $SLURM_NTASKS, which the script does not set");
  EXPECT_EQ(words[4].unknown, "line 5 may set B: it depends on $SLURM_NTASKS, which the script does not set");
  EXPECT_EQ(words[5].unknown, "it depends on $UNSET, which the script does not set");
  EXPECT_EQ(words[6].text, "x?");
  EXPECT_THAT(words[6].unknown, HasSubstr("in the loop of line 7"));
  EXPECT_EQ(words[7].unknown, "it is $1, an argument of the script");
  EXPECT_EQ(words[8].unknown, "");
  EXPECT_EQ(words[8].line, 10);
}

TEST(Shell, APatternOrAValueThatIsNotKnownDecidesNothing) {
  const ShellScript script = read_shell(
      "case a1 in [ab]*) A=1 ;; *) A=2 ;; esac\ncase $UNSET in x) B=1 ;; esac\ncase a in $UNSET) C=1 ;; a) C=2 ;; "
      "esac\n"
      "D=$((010 + 1))\n[[ a1 == [ab]* ]] && E=1\nsource ./env.sh\ntrain\n");
  EXPECT_EQ(script.variables.at("A").unknown, "line 1 may set A: the pattern [ab]* is not followed");
  EXPECT_EQ(script.variables.at("B").unknown, "line 2 may set B: it depends on $UNSET, which the script does not set");
  EXPECT_EQ(script.variables.at("C").unknown, "line 3 may set C: it depends on $UNSET, which the script does not set");
  EXPECT_EQ(script.variables.at("D").unknown, "010 + 1 is not followed as a number");
  EXPECT_EQ(script.variables.at("E").unknown, "line 5 may set E: the pattern [ab]* is not followed");
  EXPECT_THAT(script.sourced, ElementsAre("./env.sh"));
  EXPECT_EQ(read_shell("for I in {1..3}; do A=$I; done\ntrain\n").variables.at("A").unknown,
            "line 1 may set A: it is in the loop of line 1");
  // Many reasons, each of them used after others came.
  std::string many = "case $1 in\n";
  for (int i = 0; i < 50; ++i) many += fmt::format("  {}) V=$U{} ;;\n", i, i);
  EXPECT_EQ(read_shell(many + "esac\ntrain\n").variables.at("V").unknown,
            "line 51 may set V: it is $1, an argument of the script");
}

TEST(Shell, LinesAreThoseWhereAWordIsWrittenAndSlurmsOptionsAreKnown) {
  const ShellScript script = read_shell(
      "#!/bin/bash\n#SBATCH --nodes=16 --ntasks-per-node 8\n#SBATCH -n 128\nLR=1e-4\nARGS=\"--lr $LR\n --x 1\"\n"
      "srun train.py $ARGS --n $((SLURM_NNODES * 8)) ${MASTER:-local}\n");
  ASSERT_EQ(script.commands.size(), 1u);
  std::vector<int> lines;
  for (const ShellWord& word : script.commands[0].words) lines.push_back(word.line);
  EXPECT_THAT(lines, ElementsAre(7, 7, 5, 4, 6, 6, 7, 7, 7));
  EXPECT_EQ(script.commands[0].words[7].text, "128");
  EXPECT_EQ(script.variables.at("SLURM_NTASKS").text, "128");
  EXPECT_EQ(script.variables.at("SLURM_NTASKS_PER_NODE").text, "8");
  EXPECT_THAT(script.defaulted, ElementsAre("MASTER"));
}

TEST(Shell, AFaultNamesItsLineAndNothingRunsAway) {
  const auto fault = [](const std::string& script) {
    try {
      read_shell(script);
    } catch (const ShellFault& f) {
      return fmt::format("{}: {}", f.line, f.what);
    }
    return std::string("none");
  };
  EXPECT_EQ(fault("A=1\nB=\"open\n"), "2: a \" has no end");
  EXPECT_EQ(fault("if true; then\nA=1\n"), "2: `fi` is missing here");
  EXPECT_EQ(fault("A=(1 2\n"), "1: a ) is missing");
  EXPECT_EQ(fault("fi\n"), "1: `fi` stands here");
  EXPECT_EQ(fault("echo ${A\n"), "1: a } is missing");
  EXPECT_EQ(fault("cat <<END\nx\n"), "2: a here-document has no end END");
  std::string doubled = "A=0123456789\n";
  for (int i = 0; i < 40; ++i) doubled += "A=$A$A\n";
  EXPECT_THAT(fault(doubled), HasSubstr("longer than 1 MiB"));
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += "( ";
  EXPECT_THAT(fault(nested), HasSubstr("nested too deeply"));
  EXPECT_THAT(fault("f() { f; f; }\nf\n"), HasSubstr("nested too deeply"));
  std::string test = "[ a";
  for (int i = 0; i < 20000; ++i) test += " -o a";
  EXPECT_THAT(fault(test + " ]\n"), HasSubstr("nested too deeply"));
  std::string copies;
  for (int i = 0; i < 2000; ++i) copies += fmt::format("V{}=1; ( true )\n", i);
  EXPECT_THAT(fault(copies), HasSubstr("longer than 1 MiB"));
  std::string deep = "A=";
  for (int i = 0; i < 5000; ++i) deep += "${B:-";
  EXPECT_THAT(fault(deep), HasSubstr("a } is missing"));
  deep += std::string(5000, '}');
  EXPECT_THAT(fault(deep), HasSubstr("nested too deeply"));
}

}  // namespace
}  // namespace hearth::config
