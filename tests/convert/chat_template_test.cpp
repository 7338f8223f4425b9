// SPDX-License-Identifier: Apache-2.0
// Chat templates on their way: transformers renders the same text before and after.
#include "foreign.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;
using testing::Not;

// A tokenizer with a template in OUT, as `form` says: "config" (a field), "named" (a field with two), "file" (Jinja
// files). Prints what transformers makes of a conversation.
constexpr const char* kScript = R"(
import json, os, sys
command, folder = sys.argv[1:3]
CHAT = ("{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}{{ eos_token }}\u00e9")
if command == 'make':
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
                                  special_tokens=['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<s>'])
    tokenizer.train_from_iterator(['the cat sat on the mat'] * 9, trainer)
    tokenizer.save(folder + '/tokenizer.json')
    config = {'bos_token': '<s>', 'eos_token': '<|im_end|>', 'tokenizer_class': 'PreTrainedTokenizerFast'}
    form = sys.argv[3]
    if form == 'config':
        config['chat_template'] = CHAT
    if form == 'named':
        config['chat_template'] = [{'name': 'default', 'template': CHAT}, {'name': 'short', 'template': '{{ messages | length }}'}]
    if form == 'file':
        config['chat_template'] = 'a text that the files replace'
        open(folder + '/chat_template.jinja', 'w').write(CHAT)
        os.makedirs(folder + '/additional_chat_templates')
        open(folder + '/additional_chat_templates/short.jinja', 'w').write('{{ messages | length }}')
    json.dump(config, open(folder + '/tokenizer_config.json', 'w'))
else:
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [{'role': 'user', 'content': ' Where is the cat? '}, {'role': 'assistant', 'content': 'On the mat.'}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
    templates = tokenizer.chat_template
    short = tokenizer.apply_chat_template(messages, tokenize=False, chat_template='short') if isinstance(templates, dict) else ''
    print(json.dumps([text, ids, templates, short]))
)";

class Chat {
 public:
  explicit Chat(const std::string& form) : form_(form) {
    foreign(fmt::format("make {}/f L=1 V=320 meta=0", at()));
    write_text(scratch_ / "chat.py", kScript);
    python("make", at() + "/f/hf", form);
  }
  std::string at() const { return scratch_.path().string(); }
  std::string rendered(const std::string& name) const { return python("render", at() + "/" + name); }

 private:
  std::string python(const std::string& command, const std::string& folder, const std::string& form = {}) const {
    const auto result = test::run_python(fmt::format("{}/chat.py {} {} {}", at(), command, folder, form));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  }
  test::ScratchFolder scratch_;
  std::string form_;
};

struct ChatTemplate : testing::TestWithParam<const char*> {};

TEST_P(ChatTemplate, RendersTheSameAfterEachConversion) {
  HEARTH_NEEDS_ORACLE();
  const Chat chat(GetParam());
  const std::string before = chat.rendered("f/hf"), at = chat.at();
  EXPECT_THAT(before, HasSubstr("Where is the cat?<|im_end|>"));
  converted(fmt::format("--to hf {0}/f/hf {0}/direct", at));
  EXPECT_EQ(chat.rendered("direct"), before);
  converted(fmt::format("--to native {0}/f/hf {0}/native", at));
  converted(fmt::format("--to native {0}/native {0}/again", at));
  converted(fmt::format("--to hf {0}/again {0}/back", at));
  EXPECT_EQ(chat.rendered("back"), before);
  EXPECT_EQ(test::run_hearth("verify " + at + "/again").exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, ChatTemplate, testing::Values("config", "named", "file"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ChatTemplates, BelongToTheirTokenizer) {
  HEARTH_NEEDS_ORACLE();
  const Chat chat("config");
  const std::string at = chat.at(), before = chat.rendered("f/hf");
  EXPECT_THAT(converted(fmt::format("--to meta {0}/f/hf {0}/meta", at)),
              HasSubstr("note: the chat template stays behind: the kind meta has no home for it"));
  converted(fmt::format("--to native {0}/f/hf {0}/native", at));
  // Another tokenizer brings its own, or none.
  make_folders(at + "/bare");
  std::filesystem::copy(at + "/f/hf/tokenizer.json", at + "/bare");
  converted(fmt::format("--to hf --tokenizer {0}/bare {0}/native {0}/without", at));
  EXPECT_THAT(read_file(at + "/without/tokenizer_config.json"), Not(HasSubstr("chat_template")));
  converted(fmt::format("--to native --tokenizer {0}/bare {0}/native {0}/bare-native", at));
  EXPECT_THAT(read_file(at + "/bare-native/hearth.json"), Not(HasSubstr("chat_template")));
  converted(fmt::format("--to hf --tokenizer {0}/f/hf {0}/bare-native {0}/with", at));
  EXPECT_EQ(chat.rendered("with"), before);
}

// A training of one step that starts from the model, with the data's tokenizer at `tokenizer`, and one more step.
std::string trained(const std::string& at, const std::string& name, const std::string& tokenizer) {
  const std::string run = at + "/" + name, data = run + "-data";
  const auto hearth = [](const std::string& words) {
    const test::CommandResult result = test::run_hearth(words);
    EXPECT_EQ(result.exit_code, 0) << words << "\n" << result.output;
    return result.output;
  };
  write_text(at + "/text.txt", std::string(3000, 'a') + " the cat sat on the mat");
  hearth(fmt::format("data build --out {} --tokenizer {} {}/text.txt", data, tokenizer, at));
  const std::string model = hearth(fmt::format("inspect --model {}/f/hf", at));
  std::string output;
  for (const int steps : {1, 2}) {
    write_text(
        run + ".toml",
        fmt::format("{}\n[job]\ndump_folder = \"{}\"\n[data]\npath = \"{}\"\n[training]\nsteps = {}\nseq_len = 64\n"
                    "global_batch_size = 1\nlocal_batch_size = 1\n[checkpoint]\ninitial_load_path = \"{}/f/hf\"\n",
                    model, run, data, steps, at));
    output += hearth(fmt::format("train {}.toml", run));
  }
  converted(fmt::format("--to hf {0} {0}-hf", run));
  return output;
}

TEST(ChatTemplates, StayWithATrainingThatStartsFromTheModel) {
  HEARTH_NEEDS_TRAINER();
  HEARTH_NEEDS_ORACLE();
  const Chat chat("file");
  const std::string at = chat.at(), before = chat.rendered("f/hf");
  EXPECT_THAT(trained(at, "run", at + "/f/hf"), Not(HasSubstr("chat template")));
  EXPECT_EQ(chat.rendered("run-hf"), before);
  EXPECT_THAT(trained(at, "bytes", "bytes"),
              HasSubstr(fmt::format("the chat template of {}/f/hf stays behind: its tokenizer is not the data's", at)));
  EXPECT_THAT(read_file(at + "/bytes/checkpoints/step-00000002/hearth.json"), Not(HasSubstr("chat_template")));
}

TEST(ChatTemplates, ThatCannotBeUnderstoodAreRefused) {
  HEARTH_NEEDS_ORACLE();
  const Chat chat("config");
  const std::string at = chat.at();
  const Path config = at + "/f/hf/tokenizer_config.json", file = at + "/f/hf/chat_template.jinja";
  write_text(config, R"({"chat_template": [{"name": "default"}]})");
  EXPECT_THAT(refused(fmt::format("--to native {0}/f/hf {0}/out", at)),
              HasSubstr("chat_template is neither a text nor a list of names and templates"));
  write_text(config, R"({"chat_template": {"default": "x"}})");
  EXPECT_THAT(refused(fmt::format("--to native {0}/f/hf {0}/out", at)), HasSubstr("neither a text nor a list"));
  write_text(config, R"({"chat_template": null})");
  converted(fmt::format("--to native {0}/f/hf {0}/none", at));
  write_text(file, "\xff\xfe");
  EXPECT_THAT(refused(fmt::format("--to native {0}/f/hf {0}/out", at)), HasSubstr("chat_template.jinja is not UTF-8"));
}

}  // namespace
}  // namespace hearth::convert
