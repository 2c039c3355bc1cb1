"""Which figures are drawn, and over what."""

from collections.abc import Mapping

from plot import Chart, Points, draw

Found = Mapping[int, Mapping[str, float]]
"""For each size, the figures."""


def of_length(found: Found) -> dict[str, str]:
    """Return pictures of what a session costs as it grows, by their names."""
    seconds = {"load_s": "session/load", "last_s": "show --last", "export_s": "export"}
    rates = {"append": "appended", "loaded": "loaded"}
    mb = {"load_mb": "session/load", "last_mb": "show --last", "export_mb": "export"}
    across = "entries in the session"
    charts = {
        "length-time": Chart("Time against length", across, "seconds", _lines(found, seconds)),
        "length-rate": Chart("Rates against length", across, "entries/s", _lines(found, rates)),
        "length-memory": Chart("Memory against length", across, "MB", _lines(found, mb)),
    }
    return {name: draw(chart) for name, chart in charts.items()}


def of_size(found: Found) -> dict[str, str]:
    """Return pictures of what a store costs as it fills, by their names."""
    listing = {"terminal_ms": "rekindle list", "list_ms": "session/list", "page_ms": "its page"}
    search = {
        "command_ms": "rekindle search",
        "search_ms": "slowest search",
        "nothing_new_ms": "nothing new",
    }
    opening = {"load_ms": "session/load", "start_ms": "initialize"}
    across = "sessions in the store"
    charts = {
        "size-list": Chart("Listing against size", across, "ms", _lines(found, listing), 150),
        "size-search": Chart("Searching against size", across, "ms", _lines(found, search), 100),
        "size-open": Chart("Opening against size", across, "ms", _lines(found, opening), 500),
    }
    return {name: draw(chart) for name, chart in charts.items()}


def _lines(found: Found, names: dict[str, str]) -> dict[str, Points]:
    return {
        name: [(size, figures[figure]) for size, figures in found.items()]
        for figure, name in names.items()
    }
