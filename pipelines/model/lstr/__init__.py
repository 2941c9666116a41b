"""LSTR and TeSTra: a long memory that is compressed, a work memory that is decoded."""
