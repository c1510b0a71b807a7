"""Exchanges with the whole library over its public API, recorded once and compared with the recordings ever after."""
