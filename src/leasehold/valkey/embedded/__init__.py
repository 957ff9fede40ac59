"""The embedded default: a real Valkey on a unix socket, shared by all processes of one user.

``ensure_running`` starts it when needed. Clients do not stop it: a detached supervisor ends it two seconds after
the last client connection closes, even if that client was killed, and the next start finds the data again.
"""

from leasehold.valkey.embedded.data_dir import default_data_dir
from leasehold.valkey.embedded.launcher import ensure_running

__all__ = ["default_data_dir", "ensure_running"]
