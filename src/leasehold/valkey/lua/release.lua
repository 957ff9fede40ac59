-- Ends the lease of this token, and only that.
-- KEYS: lock
-- ARGV: token
-- Returns: 1 when ended, 0 when it was gone before
local lock = KEYS[1]
local token = ARGV[1]

-- Uses: record
if read_record(lock) ~= token then return 0 end
redis.call('DEL', lock)
return 1
