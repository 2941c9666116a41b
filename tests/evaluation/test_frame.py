"""Result tables as pandas tables, for notebooks."""

from __future__ import annotations

from pipelines.evaluation.tables.report import Table, to_csv, to_frame


def test_frame_holds_what_the_csv_holds() -> None:
    table = Table(("class", "AP"), (("Diving", 0.123456789012345), ("Shotput", None)))
    frame = to_frame(table)
    assert list(frame.columns) == ["class", "AP"]
    assert frame["AP"][0] == 0.123456789012345
    assert frame["AP"].isna().tolist() == [False, True]
    assert frame.to_csv(index=False) == to_csv(table)
