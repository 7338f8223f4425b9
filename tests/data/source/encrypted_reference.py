# SPDX-License-Identifier: Apache-2.0
"""Parquet files that pyarrow encrypts, each of the columns "text" and "n".

usage: encrypted_reference.py FOLDER    FOLDER/NAME.parquet with an encrypted footer, text, or other column
"""

import base64
import os
import sys

import pyarrow
import pyarrow.parquet
import pyarrow.parquet.encryption as encryption


class Keys(encryption.KmsClient):
    """A store of keys that keeps each key as it is."""

    def __init__(self, _configuration):
        encryption.KmsClient.__init__(self)

    def wrap_key(self, key, _master):
        return base64.b64encode(key)

    def unwrap_key(self, wrapped, _master):
        return base64.b64decode(wrapped)


def main(folder):
    table = pyarrow.table({"text": ["a text", "another"], "n": [1, 2]})
    for name, plain_footer, column in (("footer", False, "text"), ("text", True, "text"), ("other", True, "n")):
        configuration = encryption.EncryptionConfiguration(footer_key="footer", column_keys={"column": [column]},
                                                           plaintext_footer=plain_footer)
        properties = encryption.CryptoFactory(Keys).file_encryption_properties(encryption.KmsConnectionConfig(),
                                                                               configuration)
        path = os.path.join(folder, name + ".parquet")
        with pyarrow.parquet.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
            writer.write_table(table)


main(sys.argv[1])
