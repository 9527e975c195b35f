"""Units of Graphs as models of other runtimes."""
