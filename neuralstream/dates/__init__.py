"""Calendar expressions in what people say: the one place that reads them.

`find_periods` reads a question, which looks back: "in March" is the latest March. `resolve_dates` reads a statement,
which is written down: it dates the relative expressions and leaves the rest as it stands. Both share `relative.py`.

Read here and not by a library: dateparser, datefinder, datefind, ctparse, parsedatetime and timefhuman were tried. They
answer with a moment where a question names a stretch ("in March", "last summer", "the week before 3 August"), and take
ordinary words and numbers for dates.
"""

from neuralstream.dates.periods import Period, find_periods
from neuralstream.dates.resolve import resolve_dates

__all__ = ["Period", "find_periods", "resolve_dates"]
