"""Forms of an audit: table, JSON, Markdown, HTML and SARIF."""
