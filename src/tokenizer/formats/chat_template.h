// SPDX-License-Identifier: Apache-2.0
// Chat templates: Jinja programs that turn a conversation into text. Published models carry them beside their
// tokenizer. Hearth keeps them and never runs them.
#pragma once

#include <string>

#include "base/file.h"

namespace hearth::tokenizer {

// The name of this state in a checkpoint (checkpoint::Manifest::states). Stored on disk: never change.
inline constexpr const char* kChatTemplateState = "chat_template";

// The templates in a folder of Hugging Face's files, as a JSON object of names and texts; a template without a name
// gets the name "default". Empty: there is no template. chat_template.jinja and additional_chat_templates/NAME.jinja
// come before the field of tokenizer_config.json, as in transformers. Throws user_error for a file that cannot be
// understood.
std::string read_chat_templates(const Path& folder);

// The same templates as the JSON value of the field "chat_template" in tokenizer_config.json: a text if "default" is
// the only template, else a list. Throws damaged() naming `origin` if `templates` is another object.
std::string chat_template_field(const std::string& templates, const std::string& origin);

}  // namespace hearth::tokenizer
