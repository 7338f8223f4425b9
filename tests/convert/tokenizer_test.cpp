// SPDX-License-Identifier: Apache-2.0
// Tokenizers of Meta's folders in Hugging Face's: transformers gives the ids of the references.
#include "foreign.h"

#include "support/mixed_text.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;

void run_script(const Path& path, std::string_view script, const std::string& words) {
  write_text(path, script);
  const test::CommandResult result = test::run_python(fmt::format("{} {}", path.string(), words));
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(ConvertTokenizer, Llama3sTokenizerModelBecomesATokenizerJsonWithTheSameIds) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=1 D=16 H=2 G=2 F=16 V=128256 size=1GB", at));
  const std::string reference = test::source_path("tests/tokenizer/llama3_reference.py");
  const Path model = test::run_python(reference + " model-path").output;
  write_text(scratch / "f/meta-1/tokenizer.model", read_file(model));
  write_text(scratch / "text", test::MixedText(21).make(300'000));
  EXPECT_THAT(converted(fmt::format("--to hf {0}/f/meta-1 {0}/hf", at)),
              HasSubstr("note: tokenizer.json is made from Llama-3's tokenizer.model"));
  run_script(scratch / "check.py", R"(
import os, sys
sys.path.insert(0, os.path.dirname(sys.argv[2]))
from llama3_reference import encoding, model_path, special_tokens
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import TikTokenConverter
at = sys.argv[1]
ours = AutoTokenizer.from_pretrained(at + '/hf')
special = special_tokens(128000)
theirs = TikTokenConverter(model_path(), extra_special_tokens=special).converted()
text = open(at + '/text', encoding='utf-8', newline='').read() + "<|eot_id|>it's\r\n\r\n 12345 <|image|>x"
ids = ours(text).input_ids
assert ids[0] == ours.bos_token_id == 128000 and ours.eos_token_id == 128001, ids[:2]
assert ids[1:] == theirs.encode(text).ids
assert ids[1:] == encoding().encode(text, allowed_special='all')
assert {token: ours.convert_tokens_to_ids(token) for token in special} == special
assert ours.decode(ids[1:]) == text
assert ours.vocab_size + 256 == len(ours) == 128256, len(ours)
assert ours.model_max_length > 0 and ours.bos_token == '<|begin_of_text|>' and ours.eos_token == '<|end_of_text|>'
)",
             at + " " + reference);
  // Hearth reads its own file, with the same tokens around documents.
  converted(fmt::format("--to native {0}/hf {0}/native", at));
  converted(fmt::format("--to hf {0}/native {0}/hf-again", at));
  EXPECT_EQ(read_file(at + "/hf/tokenizer.json"), read_file(at + "/hf-again/tokenizer.json"));
  EXPECT_EQ(read_file(at + "/hf/tokenizer_config.json"), read_file(at + "/hf-again/tokenizer_config.json"));
}

TEST(ConvertTokenizer, ASentencePieceModelOpensInTransformersWithTheIdsOfItsLibrary) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=1 V=400", at));
  run_script(scratch / "train.py", R"(
import io, sentencepiece, sys
model = io.BytesIO()
lines = [f'the cat number {i} sat on the mat, {i * i} times' for i in range(300)]
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(lines), model_writer=model, vocab_size=320, model_type='bpe', byte_fallback=True,
    split_digits=True, normalization_rule_name='identity', remove_extra_whitespaces=False, minloglevel=2)
open(sys.argv[1] + '/f/meta-1/tokenizer.model', 'wb').write(model.getvalue())
)",
             at);
  EXPECT_THAT(converted(fmt::format("--to hf {0}/f/meta-1 {0}/hf", at)),
              HasSubstr("note: tokenizer.model is copied; transformers opens it as LlamaTokenizer"));
  EXPECT_EQ(read_file(at + "/hf/tokenizer.model"), read_file(at + "/f/meta-1/tokenizer.model"));
  // transformers' class puts no second space before a text that begins with one.
  run_script(scratch / "check.py", R"(
import importlib.util, json, sentencepiece, sys
at = sys.argv[1]
config = json.load(open(at + '/hf/tokenizer_config.json'))
assert (config['bos_token'], config['eos_token'], config['tokenizer_class']) == ('<s>', '</s>', 'LlamaTokenizer'), config
library = sentencepiece.SentencePieceProcessor(model_file=at + '/hf/tokenizer.model')
if importlib.util.find_spec('google') is None:
    sys.exit()  # transformers needs protobuf for this
from transformers import AutoTokenizer
ours = AutoTokenizer.from_pretrained(at + '/hf')
for text in ('the cat sat', 'two  spaces, 1234 mats\n', 'un\u00efcode \u4e2d\u6587'):
    assert ours(text).input_ids == library.encode(text), (text, ours(text).input_ids)
)",
             at);
  // Llama 2 shares the columns of its embedding.
  foreign(fmt::format("make {}/two L=1 V=400 columns=1", at));
  EXPECT_THAT(converted(fmt::format(
                  "--to meta --tensor-parallel 2 --tokenizer {0}/f/meta-1/tokenizer.model {0}/two/hf {0}/meta", at)),
              HasSubstr("note: the files share the columns of tok_embeddings, as the code of Llama 2 reads them"));
  EXPECT_EQ(foreign(fmt::format("meta-same {0}/two/meta-2 {0}/meta", at)), "equal");
}

}  // namespace
}  // namespace hearth::convert
