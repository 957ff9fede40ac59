-- Undoes a call: removes its mark, or releases its hold, unless the editor has repeated the request since.
-- KEYS: lock, fence, held_until, history
-- ARGV: ask
-- Returns: {'withdrawn' or 'gone', state}
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ask = ARGV[1]

-- Uses: clock, fence, hold, past_holds, events, transfer, expiry
local hold, text = apply_expiry()
if hold and hold.ask == ask then return {'withdrawn', state_json(end_or_hand_over(hold, 'released', false))} end
if not hold or not hold.taking or hold.taking.ask ~= ask then return {'gone', state_json(text)} end
local taker = hold.taking
hold.taking, hold.step = nil, hold.step + 1
local state = state_json(write_hold(hold))
publish('document_locked', taker, nil, state)
return {'withdrawn', state}
