-- Extends a hold that was handed over to this call.
-- KEYS: lock, fence, held_until, history
-- ARGV: ask, ttl_ms
-- Returns: {'granted' or 'busy', state}
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ask, ttl_ms = ARGV[1], ARGV[2]

-- Uses: clock, fence, hold, past, telling, giving, settling
local hold, text = settle()
if not hold or hold.ask ~= ask then return {'busy', describe(text)} end
return {'granted', describe(extend(hold, ask, tonumber(ttl_ms)))}
