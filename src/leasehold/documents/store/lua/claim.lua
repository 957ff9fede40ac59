-- Extends a hold that was handed over to this call.
-- KEYS: lock, fence, held_until, history
-- ARGV: ask, ttl_ms
-- Returns: {'granted' or 'busy', state}
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ask, ttl_ms = ARGV[1], ARGV[2]

-- Uses: clock, fence, hold, past_holds, events, transfer, expiry
local hold, text = apply_expiry()
if not hold or hold.ask ~= ask then return {'busy', state_json(text)} end
return {'granted', state_json(extend(hold, ask, tonumber(ttl_ms)))}
