-- Returns the current state. The first call after a hold has expired stores and publishes that.
-- KEYS: lock, fence, held_until, history
-- ARGV:
-- Returns: state
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- Uses: clock, fence, hold, past_holds, events, transfer, expiry
local _, text = apply_expiry()
return state_json(text)
