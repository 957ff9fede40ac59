-- Checks whether a session that was valid at some time has ended since.
-- KEYS: ended
-- ARGV: session, since_ms
-- Returns: 1 if it has, else 0
local ended = KEYS[1]
local session, since_ms = ARGV[1], ARGV[2]

if redis.call('ZSCORE', ended, session) then return 1 end
local all_ended_ms = redis.call('ZSCORE', ended, '*')
return all_ended_ms and tonumber(all_ended_ms) >= tonumber(since_ms) and 1 or 0
