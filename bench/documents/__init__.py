"""The document service under load: locks over HTTP, and events to very many sockets."""
