-- Marks a key unless it is marked already.
-- KEYS: result
-- ARGV: mark, ttl_ms
-- Returns: 1 for the first caller, also when it asks again with the same mark; 0 for all others
local result = KEYS[1]
local mark, ttl_ms = ARGV[1], ARGV[2]

if redis.call('SET', result, mark, 'NX', 'PX', ttl_ms) then return 1 end
return redis.call('GET', result) == mark and redis.call('PEXPIRE', result, ttl_ms) or 0
