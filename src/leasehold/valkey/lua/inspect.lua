-- Who holds the lock. The token stays here.
-- KEYS: lock, fence, queue
-- ARGV:
-- Returns: {holding, left_ms, last_fence, waiters}; holding is '' and left_ms negative when free
-- Uses: record
local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]

local _, holding = read_record(lock)
return {holding or '', redis.call('PTTL', lock), redis.call('GET', fence) or '', redis.call('ZCARD', queue)}
