-- Uses a ticket up.
-- KEYS: ticket
-- ARGV:
-- Returns: 'MADE_MS PRINCIPAL', or nil if there is no such ticket, or not any more
local ticket = KEYS[1]

local kept = redis.call('GET', ticket)
if kept then redis.call('DEL', ticket) end
return kept
