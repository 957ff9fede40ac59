-- Removes the mark of a caller that does not know whether it was the first.
-- KEYS: result
-- ARGV: mark
-- Returns: 1 when removed, 0 when there is none or another one
local result = KEYS[1]
local mark = ARGV[1]

return redis.call('GET', result) == mark and redis.call('DEL', result) or 0
