"""Pages as Markdown for a pull request or a job summary: the verdict first, the rest to unfold."""
