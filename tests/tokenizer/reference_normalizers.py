# SPDX-License-Identifier: Apache-2.0
"""Makes tokenizers with normalizers, Unigram and WordPiece models, and encodes documents with them, for
normalizers_test.cpp.

  reference_normalizers.py OUT normalizers

OUT has the files of reference_tokenizers.py, and for each normalizer OUT/text/NAME.json (the node), and NAME.bin: what
`tokenizers` makes of each text in OUT/texts.bin.
"""

import functools
import io
import itertools
import json
import os
import random
import sys
import tempfile

from reference_tokenizers import SPECIAL, encode_documents, make_documents, train, write_rows

TOOL = "\ufb01\u00c9 Tool"  # a ligature, an accent and capitals: normalizers change it


@functools.cache
def kinds_of_points():
    """What normalizers change: marks, Hangul, ligatures, letters with cases, white space; and any code point."""
    import unicodedata

    points = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    marks = [c for c in points if unicodedata.combining(chr(c)) or unicodedata.category(chr(c)).startswith("M")]
    compatible = [c for c in points if unicodedata.decomposition(chr(c))]
    cased = [c for c in points if chr(c).lower() != chr(c)] + [0x130, 0x131, 0x3A3, 0x3C2, 0x1E9E, 0xDF, 0x212A]
    white = [c for c in points if chr(c).isspace()] + [0x200B, 0x200C, 0x200D, 0xFEFF, 0x2581, 0x7F, 0x8F, 0xAD]
    hangul = [*range(0x1100, 0x1200), *range(0xA960, 0xA97D), *range(0xAC00, 0xD7A4, 7), *range(0xD7B0, 0xD7FC)]
    pictures = [0xA9, 0xAE, 0x203C, 0x2764, 0x1F600, 0x1F468, 0x1F1E9, 0x1F1EA, 0x1F3FD, 0x200D, 0xFE0F, 0x20E3]
    indic = [*range(0x900, 0x980), *range(0x1000, 0x1040), *range(0xD00, 0xD80), 0x300, 0x301, 0x600, 0x6DD]
    return [marks, compatible, cased, white, hangul, pictures, indic, list(range(1, 128)), list(b"aeiouAEI  "), points]


def random_texts(seed, count):
    rng = random.Random(seed)
    kinds = kinds_of_points()
    for _ in range(count):
        yield "".join(chr(rng.choice(rng.choice(kinds))) for _ in range(rng.randint(1, 12)))


def charsmap(**options):
    """SentencePiece's precompiled map, from a model that is trained for it."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["hello world"] * 50), model_writer=model,
                                             vocab_size=60, hard_vocab_limit=False, minloglevel=2, **options)
    return dict(fields(dict(fields(model.getvalue()))[3]))[2]  # normalizer_spec.precompiled_charsmap


def fields(message):
    """(number, value) of a protocol buffer."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        size = {0: 0, 1: 8, 5: 4}.get(tag & 7)
        value = number() if size == 0 else None
        if size is None:
            size = number()
        yield tag >> 3, value if tag & 7 == 0 else message[at:at + size]
        at += size


def custom_charsmap():
    """Letters that become other texts, so that each one shows the cluster it stands in."""
    rules = [("a", "X"), ("\u0915", "<ka>"), ("\u00a9", "(c)"), ("\u0600", "P"), ("\u1100", "G"), ("\n", ""),
             ("e\u0301", "\u00e9"), ("b", ""), ("\u200d", "-")]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        for source, target in rules:
            file.write("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in (source, target)) + "\n")
        file.flush()
        return charsmap(normalization_rule_tsv=file.name)


def normalizers_by_name():
    from tokenizers import Regex, normalizers as n

    nmt_nfkc = n.Precompiled(charsmap(normalization_rule_name="nmt_nfkc"))
    folded = n.Precompiled(charsmap(normalization_rule_name="nmt_nfkc_cf"))
    return {
        "nfc": n.NFC(), "nfd": n.NFD(), "nfkc": n.NFKC(), "nfkd": n.NFKD(), "lowercase": n.Lowercase(), "nmt": n.Nmt(),
        "strip": n.Strip(), "strip-left": n.Strip(True, False), "strip-right": n.Strip(False, True),
        "accents": n.Sequence([n.NFD(), n.StripAccents()]), "marks": n.StripAccents(),
        "uncased": n.Sequence([n.NFKD(), n.StripAccents(), n.Lowercase(), n.Strip()]),
        "replace": n.Replace("a", "bb"), "spaces": n.Replace(Regex(r"\s{2,}|\d"), "_"),
        "sentencepiece": n.Sequence([n.Nmt(), n.NFKC(), n.Replace(Regex(" {2,}"), " ")]),
        "precompiled": nmt_nfkc, "folded": folded, "custom": n.Precompiled(custom_charsmap()),
        "t5": n.Sequence([nmt_nfkc, n.Strip(False, True), n.Replace(Regex(" {2,}"), "\u2581")]),
        "albert": n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(),
                              nmt_nfkc, n.Replace(Regex(" {2,}"), " ")]),
        "bert-uncased": n.BertNormalizer(), "bert-cased": n.BertNormalizer(lowercase=False),
        "bert-clean": n.BertNormalizer(True, False, False, False),
        "bert-marks": n.BertNormalizer(False, False, True, False),
        "bert-chinese": n.BertNormalizer(False, True, False, True),
    }


def byte_level_styles(rules):
    from tokenizers import AddedToken, decoders, pre_tokenizers

    for name in ("nfd", "nfkc", "nfkd", "lowercase", "accents", "uncased", "spaces", "precompiled"):
        tokenizer = train(tokens=2000, normalizer=rules[name], alphabet=pre_tokenizers.ByteLevel.alphabet(), special=[],
                          pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False))
        tokenizer.add_special_tokens([AddedToken(text, normalized=True) for text in SPECIAL])
        tokenizer.add_tokens([TOOL, AddedToken("WORD", single_word=True)])
        tokenizer.decoder = decoders.ByteLevel()
        yield f"bytes-{name}", tokenizer


def unigram_styles(rules):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers as p, trainers

    def metaspace(scheme):
        return p.Metaspace("\u2581", scheme)

    styles = {
        "t5": (rules["t5"], metaspace("always")), "albert": (rules["albert"], metaspace("always")),
        "xlmr": (rules["precompiled"], p.Sequence([p.WhitespaceSplit(), metaspace("always")])),
        "first": (rules["uncased"], metaspace("first")), "first-map": (rules["sentencepiece"], metaspace("first")),
        "spaces": (rules["spaces"], metaspace("first")), "never": (None, metaspace("never")), "whole": (None, None),
        "bytes": (rules["nfkc"], metaspace("always")),
    }
    for name, (normalizer, pre_tokenizer) in styles.items():
        tokenizer = Tokenizer(models.Unigram())
        if normalizer:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizer or metaspace("never")
        tokenizer.train_from_iterator(make_documents(1, 200, 150, odd=False), trainers.UnigramTrainer(
            vocab_size=3000, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"], show_progress=False))
        scheme = "never" if name in ("never", "whole") else "first" if name.startswith("first") else "always"
        tokenizer.decoder = decoders.Metaspace("\u2581", scheme)
        tokenizer.add_tokens([TOOL, AddedToken("word", single_word=True, normalized=False)])
        file = json.loads(tokenizer.to_str())
        vocabulary = file["model"]["vocab"]
        # Rare characters are removed, so that unknown text appears. Tokens of equal score give equal sums.
        dice = random.Random(5)
        kept = [[text, score if dice.random() < 0.8 else round(score)] for text, score in vocabulary
                if len(text) > 1 or text < "\u0500" or text == "\u2581"]
        if name == "bytes":
            kept += [[f"<0x{byte:02X}>", 0.0] for byte in range(256)]
            file["model"]["byte_fallback"] = True
            file["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, file["decoder"]]}
        for token in file["added_tokens"][3:]:
            token["id"] += len(kept) - len(vocabulary)
        file["model"]["vocab"] = kept
        if not pre_tokenizer:
            file["pre_tokenizer"] = None
        yield f"unigram-{name}", file


def word_piece_styles(rules):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers as p, processors, trainers

    styles = {  # normalizer, pre_tokenizer, decoder, most characters of a word, prefix
        "uncased": (rules["bert-uncased"], p.BertPreTokenizer(), decoders.WordPiece(), 100, "##"),
        "cased": (rules["bert-cased"], p.BertPreTokenizer(), decoders.WordPiece(cleanup=False), 12, "##"),
        "spaces": (None, p.WhitespaceSplit(), None, 100, "@"),
    }
    for name, (normalizer, pre_tokenizer, decoder, most, prefix) in styles.items():
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        if normalizer:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.train_from_iterator(make_documents(1, 200, 150, odd=False), trainers.WordPieceTrainer(
            vocab_size=3000, limit_alphabet=250, continuing_subword_prefix=prefix, show_progress=False,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *SPECIAL]))
        tokenizer.add_tokens([TOOL, AddedToken("word", single_word=True, normalized=False)])
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        file = json.loads(tokenizer.to_str())
        file["model"]["max_input_chars_per_word"] = most
        file["decoder"] = decoder and json.loads(decoder.__getstate__())
        yield f"words-{name}", file


def main():
    out = sys.argv[1]
    os.makedirs(f"{out}/text")
    rules = normalizers_by_name()
    # All planes that have characters, and some points of the others.
    points = [chr(c) for c in [*range(1, 0xD800), *range(0xE000, 0x20000), *range(0x2F800, 0x2FA20),
                               *range(0xE0000, 0xE0200), *range(0x20000, 0x110000, 97)]]
    texts = ["", *points, *("a" + c for c in points), *random_texts(1, 60_000)]
    # Clusters of all kinds: consonant, linker, mark, joiner, pictograph, prefix, Hangul.
    texts += ["".join(parts) for parts in itertools.product("\u0915\u094d\u0300\u200da\u00a9\u0600\u1100", repeat=4)]
    write_rows(f"{out}/texts.bin", texts)
    for name, normalizer in rules.items():
        with open(f"{out}/text/{name}.json", "w", encoding="ascii") as file:
            file.write(normalizer_node(normalizer))
        write_rows(f"{out}/text/{name}.bin", [normalizer.normalize_str(text) for text in texts])
    write_rows(f"{out}/punctuation.bin", [[ord(c) for c in cut_at()]])
    documents = [*make_documents(7, 60, 200, odd=True), *random_texts(2, 6000),
                 *(" ".join(random_texts(seed, 40)) for seed in range(3, 100)), TOOL, f"x {TOOL}y",
                 "\ufb01\u00c9 TOOL", "  two", "\u00a0\u0301a", "\u0301a", "''a", "\u2581\u2581\u2581a",
                 "a\r\nb", "\r\n", "<unk>a", "a<unk>"]
    write_rows(f"{out}/documents.bin", documents)
    encode_documents(out, [*byte_level_styles(rules), *unigram_styles(rules), *word_piece_styles(rules)], documents)


def cut_at():
    """The characters that are pieces of their own between two letters."""
    from tokenizers import pre_tokenizers

    cutter = pre_tokenizers.BertPreTokenizer()
    assert all(len(cutter.pre_tokenize_str(f"a{c}b")) == len(pre_tokenizers.Punctuation().pre_tokenize_str(f"a{c}b"))
               for c in "!$\u2e43\u111c9")
    points = (chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    return [c for c in points if [piece for piece, _ in cutter.pre_tokenize_str(f"a{c}b")] == ["a", c, "b"]]


def normalizer_node(normalizer):
    from tokenizers import Tokenizer, models

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    return json.dumps(json.loads(tokenizer.to_str())["normalizer"])


main()
