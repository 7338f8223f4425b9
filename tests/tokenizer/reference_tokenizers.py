# SPDX-License-Identifier: Apache-2.0
"""Trains small tokenizers in the styles of published ones, and encodes documents with them, for huggingface_test.cpp and
sentencepiece_test.cpp.

  reference_tokenizers.py OUT KIND    KIND: huggingface, sentencepiece or mistral
  reference_tokenizers.py encode TOKENIZER DOCUMENTS IDS    ids of other documents, special text as text

OUT/documents.bin  the documents; OUT/STYLE/tokenizer.json (or .model); OUT/STYLE/plain.bin, parsed.bin: ids of each
document, special text as text and parsed; OUT/STYLE/decoded.bin: the reference's texts of plain.bin. A .bin file is a
sequence of (u32 length, u32 elements or bytes).
"""

import array
import json
import os
import random
import sys

SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<unk>", "<|begin_of_text|>"]
EOS_WIDE = "<\uff5cend\u2581of\u2581sentence\uff5c>"


def letters(first, last):
    return [chr(c) for c in range(first, last + 1)]


ALPHABETS = [
    letters(0x61, 0x7A), letters(0x41, 0x5A), letters(0x430, 0x44F), letters(0x3B1, 0x3C9), letters(0x5D0, 0x5EA),
    letters(0x627, 0x64A) + letters(0x64B, 0x652), letters(0x905, 0x939) + letters(0x93E, 0x94D), letters(0xE01, 0xE3A),
    letters(0x3041, 0x3096), letters(0x30A1, 0x30FA), letters(0x4E00, 0x4E80), letters(0xAC00, 0xAC60),
    letters(0x1100, 0x1112) + letters(0x1161, 0x1175), letters(0xC0, 0x17F), letters(0x1E00, 0x1EFF),
    ["e\u0301", "\u03ba\u03b1\u0301", "a\u0308", "n\u0303", "o\u0302\u0323", "\u1e9b\u0323", "q\u0307\u0323", "\u212b",
     "\u2126", "\u0344"],
    ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "\U0001f1e9\U0001f1ea",
     "\U0001f44d\U0001f3fd"],
    list("0123456789"), ["\u0661", "\u00b2", "\u2167", "\u0e53", "\u00bd"], list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    ["\u2014", "\u201c", "\u201d", "\u3002", "\uff0c", "\u00a9", "\u20ac", "\u2200", "\ufffd", "\u017f", "\u0130"],
]
GAPS = [" "] * 12 + ["  ", "    ", "\n", "\n\n", "\r\n", "\t", " \n", "\u00a0", "\u3000", "\u200b", "", "", "'s ",
                     "'LL ", "\u2581", "\u0085"]
CODE = ["def f(x):\n    return x[0] + 1\n", "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i];\n}\n", "x != y && !z",
        "/* --- */",
        "https://example.org/a?b=c&d=%20", "3.14159 1000000 0x7fff 2024-01-31", "I'll we've DON'T it's 'tis o'clock\n"]


def words(rng):
    alphabet = rng.choice(ALPHABETS[:2] * 6 + ALPHABETS)
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 9)))


def make_documents(seed, count, size, odd):
    """`odd`: with special tokens, and with documents of a few characters."""
    rng = random.Random(seed)
    common = [words(rng) for _ in range(600)]
    documents = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, size)):
            draw = rng.random()
            if draw < 0.70:
                parts.append(common[min(int(rng.expovariate(0.02)), len(common) - 1)])
            elif draw < 0.90:
                parts.append(words(rng))
            elif draw < 0.93:
                parts.append(rng.choice(CODE))
            elif draw < 0.94:
                parts.append(rng.choice([" ", "a", "\n", "\u00e9", "9", "="]) * rng.randint(2, 70))
            elif draw < 0.97 and odd:
                parts.append(rng.choice(SPECIAL + [EOS_WIDE, "<|", "<s", "|>", "<tool>", "<Tool>", "word",
                                                   "\u03bb\u03cc", "  "]))
            parts.append(rng.choice(GAPS))
        documents.append("".join(parts))
    if odd:
        documents += ["", " ", "  ", "\n", "a", " a", "a ", "<s>", "<s>a", " <s> a", "</s>\n", "<s><s>",
                      "x<|endoftext|>y", "\u0301",
                      "\u2581", "\u2581a", "\x00", "a\x00b", "\U0010ffff", EOS_WIDE, "a" * 600, " " * 600,
                      "\U0001f600" * 200]
    return documents


def write_rows(path, rows):
    with open(path, "wb") as file:
        for row in rows:
            data = row.encode() if isinstance(row, str) else array.array("I", row).tobytes()
            array.array("I", [len(data) if isinstance(row, str) else len(row)]).tofile(file)
            file.write(data)


# ---- tokenizer.json


def train(tokens=3000, normalizer=None, pre_tokenizer=None, alphabet=(), special=SPECIAL):
    from tokenizers import Tokenizer, models, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=None))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=tokens, special_tokens=list(special), initial_alphabet=list(alphabet),
                                  show_progress=False)
    tokenizer.train_from_iterator(make_documents(1, 300, 150, odd=False), trainer)
    return tokenizer


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]


def byte_level_styles():
    from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers, processors

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def split(pattern):
        return pre_tokenizers.Split(Regex(pattern), behavior="isolated")

    def finish(tokenizer, template=None):
        tokenizer.decoder = decoders.ByteLevel()
        if template:
            first = processors.TemplateProcessing(single=f"{template} $A",
                                                  special_tokens=[(template, tokenizer.token_to_id(template))])
            tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), first])
        return tokenizer

    gpt2 = finish(train(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False), alphabet=alphabet))
    yield "gpt2", gpt2

    prefix = finish(train(pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                                pre_tokenizers.ByteLevel(add_prefix_space=True)]),
                          alphabet=alphabet))
    yield "prefix-space", prefix

    llama3 = finish(train(pre_tokenizer=pre_tokenizers.Sequence([split(LLAMA3), level]), alphabet=alphabet, special=[]))
    llama3.add_special_tokens(SPECIAL)
    llama3 = finish(llama3, "<|begin_of_text|>")
    file = json.loads(llama3.to_str())
    file["model"]["ignore_merges"] = True
    # Merges in the older spelling; some are missing, so ignore_merges makes a difference.
    file["model"]["merges"] = [" ".join(pair) for i, pair in enumerate(file["model"]["merges"]) if i % 7 != 3]
    yield "llama3", file

    qwen2 = finish(train(normalizer=normalizers.NFC(), pre_tokenizer=pre_tokenizers.Sequence([split(QWEN2), level]),
                         alphabet=alphabet, special=[]))
    qwen2.add_special_tokens(SPECIAL)
    qwen2.add_tokens(["<tool>", "\u03ba\u03b1\u0301"])  # normalized
    yield "qwen2", qwen2

    deepseek = finish(train(normalizer=normalizers.Sequence([]), pre_tokenizer=pre_tokenizers.Sequence(
        [split(p) for p in DEEPSEEK] + [level]), alphabet=alphabet, special=[EOS_WIDE] + SPECIAL))
    yield "deepseek", deepseek

    neox = finish(train(normalizer=normalizers.NFC(), pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
                        alphabet=alphabet, special=["<|endoftext|>", "<|padding|>"]))
    neox.add_tokens([AddedToken(" " * n, normalized=False) for n in range(24, 1, -1)])
    yield "neox", neox

    # The 13 bytes that UTF-8 never has; GPT-2's alphabet spells them as themselves.
    never = {chr(byte) for byte in (0xC0, 0xC1, *range(0xF5, 0x100))}
    utf8 = [letter for letter in alphabet if letter not in never]
    pythia = finish(train(normalizer=normalizers.NFC(), pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
                          alphabet=utf8, special=["<|endoftext|>", "<|padding|>"]))
    pythia.add_tokens([AddedToken(" " * n, normalized=False) for n in range(24, 1, -1)])
    yield "pythia", pythia

    bert = finish(train(normalizer=normalizers.NFC(), pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
                        alphabet=utf8, special=["<|padding|>", "<|endoftext|>"]))
    bert.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", AddedToken("[MASK]", lstrip=True)])
    bert.add_tokens(["|||IP_ADDRESS|||", "<|", "<tool>"])
    bert.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(t, bert.token_to_id(t)) for t in ("[CLS]", "[SEP]")])
    yield "modernbert", bert

    flags = finish(train(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False), alphabet=alphabet, special=[]))
    flags.add_special_tokens([AddedToken("<s>", lstrip=True, rstrip=False), AddedToken("</s>", rstrip=True),
                              AddedToken("<|endoftext|>", lstrip=True, rstrip=True, normalized=True)])
    flags.add_tokens([AddedToken("word", single_word=True), AddedToken("<tool>", lstrip=True),
                      AddedToken("<Tool>", rstrip=True), AddedToken("he", single_word=True, normalized=False),
                      AddedToken("\u03bb\u03cc", single_word=True), AddedToken("=")])
    yield "flags", flags


def character_styles():
    from tokenizers import AddedToken, decoders, normalizers, pre_tokenizers, processors

    def with_bytes(tokenizer, **settings):
        """The vocabulary after <unk>, <s>, </s> and the 256 byte tokens, as in Llama-2."""
        file = json.loads(tokenizer.to_str())
        model = file["model"]
        old = [token for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1])
               if token not in ("<unk>", "<s>", "</s>")]
        # Rare characters are removed: byte fallback then has work.
        kept = [t for t in old if len(t) > 1 or t < "\u1100" or t == "\u2581"]
        names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + kept
        model["vocab"] = {token: i for i, token in enumerate(names)}
        model["merges"] = [[a, b] for a, b in model["merges"] if a in model["vocab"] and b in model["vocab"]
                           and a + b in model["vocab"]]
        model.update(byte_fallback=True, fuse_unk=True, unk_token="<unk>", **settings)
        file["added_tokens"] = [{"id": i, "content": names[i], "single_word": False, "lstrip": False, "rstrip": False,
                                 "normalized": False, "special": True} for i in range(3)]
        return file

    strip = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                               decoders.Strip(" ", 1, 0)])
    bos = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    special = ["<unk>", "<s>", "</s>"]

    llama2 = train(normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
                   special=special, pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_next"), tokens=4000)
    llama2.decoder, llama2.post_processor = strip, bos
    file = with_bytes(llama2)
    file["pre_tokenizer"] = None
    yield "llama2", file

    legacy = json.loads(json.dumps(file))
    for token in legacy["added_tokens"]:
        token["normalized"] = True
    yield "llama2-legacy", legacy

    gemma = train(normalizer=normalizers.Replace(" ", "\u2581"),
                  pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"), special=special, tokens=4000)
    gemma.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    yield "gemma", with_bytes(gemma, ignore_merges=True)

    for scheme in ("always", "first", "never"):
        metaspace = train(pre_tokenizer=pre_tokenizers.Metaspace("\u2581", scheme), special=special, tokens=4000)
        metaspace.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("\u2581", scheme)])
        yield f"metaspace-{scheme}", with_bytes(metaspace)


def encode_documents(out, styles, documents):
    from tokenizers import Tokenizer

    for style, made in styles:
        os.makedirs(f"{out}/{style}")
        text = json.dumps(made, ensure_ascii=False) if isinstance(made, dict) else made.to_str()
        with open(f"{out}/{style}/tokenizer.json", "w", encoding="utf-8") as file:
            file.write(text)
        tokenizer = Tokenizer.from_str(text)
        tokenizer.encode_special_tokens = False
        write_rows(f"{out}/{style}/parsed.bin",
                   [e.ids for e in tokenizer.encode_batch(documents, add_special_tokens=False)])
        tokenizer.encode_special_tokens = True
        plain = [e.ids for e in tokenizer.encode_batch(documents, add_special_tokens=False)]
        write_rows(f"{out}/{style}/plain.bin", plain)
        write_rows(f"{out}/{style}/decoded.bin", tokenizer.decode_batch(plain, skip_special_tokens=True))


# ---- SentencePiece


def write_sentencepiece(path, model, documents):
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    os.makedirs(path)
    with open(f"{path}/tokenizer.model", "wb") as file:
        file.write(model)
    plain = processor.encode(documents)
    write_rows(f"{path}/plain.bin", plain)
    write_rows(f"{path}/decoded.bin", [processor.decode(ids) for ids in plain])
    with open(f"{path}/scores.txt", "w", encoding="ascii") as file:
        file.writelines(f"{processor.get_score(i)!r}\n" for i in range(len(processor)))


def train_sentencepiece(out, documents):
    import io

    import sentencepiece

    lines = [line for text in make_documents(2, 200, 150, odd=False) for line in text.split("\n") if line.strip()]
    for style, options in {
        "bpe": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                    remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True),
        "unigram": dict(model_type="unigram"),
        "symbols": dict(model_type="bpe", user_defined_symbols=["<tool>", "word"], control_symbols=["<ctl>"],
                        add_dummy_prefix=False),
    }.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=2000,
                                                 hard_vocab_limit=False,
                                                 character_coverage=0.98, minloglevel=2, num_threads=1, **options)
        write_sentencepiece(f"{out}/{style}", model.getvalue(), documents)


def find_mistral_models():
    """Paths of the .model files inside mistral-common, without importing it."""
    import importlib.util

    folder = os.path.join(importlib.util.find_spec("mistral_common").submodule_search_locations[0], "data")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if ".model" in name)


def read_documents(path):
    with open(path, "rb") as file:
        while size := file.read(4):
            yield file.read(int.from_bytes(size, "little")).decode()


def encode(tokenizer_path, documents_path, ids_path):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(tokenizer_path)
    tokenizer.encode_special_tokens = True
    documents = list(read_documents(documents_path))
    write_rows(ids_path, [e.ids for e in tokenizer.encode_batch_fast(documents, add_special_tokens=False)])


def main():
    if sys.argv[1] == "encode":
        encode(*sys.argv[2:])
        return
    out, kind = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    documents = make_documents(3, 120, 220, odd=True)
    write_rows(f"{out}/documents.bin", documents)
    if kind == "huggingface":
        encode_documents(out, [*byte_level_styles(), *character_styles()], documents)
    elif kind == "sentencepiece":
        train_sentencepiece(out, documents)
    else:
        for path in find_mistral_models():
            with open(path, "rb") as file:
                write_sentencepiece(f"{out}/{os.path.basename(path)}", file.read(), documents)


if __name__ == "__main__":
    main()
