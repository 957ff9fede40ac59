-- One try of a force-take: grants a free lock, marks a held one, and takes a marked one when its time has come.
-- KEYS: lock, fence, held_until, history
-- ARGV: ask, user, name, tab, ttl_ms, floor, save_ms, expect_fence
-- Returns: {'granted', 'saved', 'unsaved', 'asked' or 'busy', state}. saved, unsaved: it was handed over, and may have to
--   be claimed. asked: it is marked, by this call or another. busy: another editor followed the expected hold.
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ask, user, name, tab, ttl_ms, floor, save_ms, expect_fence = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

-- Uses: clock, fence, hold, past_holds, events, transfer, expiry
local hold, text = apply_expiry()
local taker = {user = user, name = name, tab = tab, ask = ask}
if hold and hold.unclaimed and hold.ask == ask then return {hold.saved and 'saved' or 'unsaved', state_json(text)} end
if hold and hold.user == user and hold.tab == tab then
  local state = state_json(extend(hold, ask, tonumber(ttl_ms)))
  -- Handed over while this call waited, to another call of the same tab: both requested it, so both get the outcome.
  local was_handed = expect_fence ~= '' and expect_fence ~= hold.fence and hold.saved ~= nil
  return {was_handed and (hold.saved and 'saved' or 'unsaved') or 'granted', state}
end
if hold and expect_fence ~= '' and expect_fence ~= hold.fence then return {'busy', state_json(text)} end

if not hold or hold.user == user and not hold.taking then
  local count = mint(floor)
  if hold then end_hold(hold, 'moved', now_ms, hold) end
  local _, given = begin_hold(taker, ask, count, tonumber(ttl_ms))
  return {'granted', state_json(given)}
end
if not hold.taking then
  hold.taking, hold.step = taker, hold.step + 1
  taker.until_ms = now_ms + save_ms
  local state = state_json(write_hold(hold))
  publish('document_force_save_requested', taker, nil, state)
  return {'asked', state}
end
if hold.taking.ask == ask and hold.taking.until_ms <= now_ms then
  return {'unsaved', state_json(end_or_hand_over(hold, 'taken', false))}
end
return {'asked', state_json(text)}
