-- Undoes what a call has asked for: its mark is withdrawn, or its hold given back, unless the editor asked again since.
-- KEYS: lock, fence, held_until, history
-- ARGV: ask
-- Returns: {'withdrawn' or 'gone', state}
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ask = ARGV[1]

-- Uses: clock, fence, hold, past, telling, giving, settling
local hold, text = settle()
if hold and hold.ask == ask then return {'withdrawn', describe(give_back(hold, 'released', false))} end
if not hold or not hold.taking or hold.taking.ask ~= ask then return {'gone', describe(text)} end
local taker = hold.taking
hold.taking, hold.step = nil, hold.step + 1
local state = describe(write_hold(hold))
tell('document_locked', taker, nil, state)
return {'withdrawn', state}
