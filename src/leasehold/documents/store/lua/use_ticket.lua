-- Reads and deletes a ticket, so that it works once.
-- KEYS: ticket
-- ARGV:
-- Returns: 'MADE_MS PRINCIPAL', or nil if the ticket does not exist or has expired
local ticket = KEYS[1]

local kept = redis.call('GET', ticket)
if kept then redis.call('DEL', ticket) end
return kept
