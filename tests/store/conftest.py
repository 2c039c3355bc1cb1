from store_fixture import second, store

__all__ = ["second", "store"]
