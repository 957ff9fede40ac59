"""The document service under load: locks over HTTP, and what very many sockets are told."""
