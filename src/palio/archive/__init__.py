"""The archive: all publications that enter a server, as Parquet files that event tables are made of.

``docs/archive.md`` says what is in the folder and how it is read. The archiver follows the message log of a server in
a process of its own (``python -m palio.archive``, or ``palio archive run``). It needs the extra ``palio[archive]``;
what others have to know of the folder (:mod:`~palio.archive.rolls`, :mod:`~palio.archive.progress`) does not.
"""
