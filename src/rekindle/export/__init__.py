"""Write sessions as documents: Markdown, HTML, JSON, and the updates of the protocol."""
