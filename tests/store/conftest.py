from store_fixture import store

__all__ = ["store"]
