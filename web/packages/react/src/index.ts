export { LockBanner, type LockBannerProps } from './banner/LockBanner';
export { type LockMessages, messages } from './banner/messages';
export type { CompareTarget } from './banner/OutcomeActions';
export type { Ticker } from './clock/ticker';
export { pageTicker, workerTicker } from './clock/workerTicker';
export type { Draft, DraftStore } from './drafts/draft';
export { indexedDrafts } from './drafts/indexedDrafts';
export { restService } from './editing/effects/restService';
export type { LossReason, Notice, TextOutcome } from './editing/terms/notices';
export type {
  AcquireAnswer,
  BeatAnswer,
  DocumentService,
  LoadAnswer,
  LookAnswer,
  SaveAnswer,
  SaveRequest,
} from './editing/terms/service';
export { defaultTimes, type Times } from './editing/terms/times';
export type {
  DocumentLock,
  DocumentLockActions,
  DocumentLockState,
  LockStatus,
} from './editing/view/documentLock';
export type { BeforeRelease, DocumentLockOptions } from './hooks/options';
export { useDocumentLock } from './hooks/useDocumentLock';
export { useLivePhase } from './hooks/useLivePhase';
export { useWatchedLock } from './hooks/useWatchedLock';
export { connectLive, type LiveOptions } from './live/connectLive';
export type { Live, LiveEvent, LivePhase } from './live/live';
export { type Content, isSameContent, type LoadedDocument } from './protocol/content';
export type { Lock, LockHolder, LockVersion, Person, Taking } from './protocol/messages.generated';
export type { Role } from './protocol/rest';
export { pageTab } from './protocol/tab';
export { broadcastTabs } from './tabs/broadcastTabs';
export type { TabLine, TabMessage, Tabs } from './tabs/tabs';
export {
  type BridgeOptions,
  type ElectronBridge,
  type ElectronTransportOptions,
  electronTransport,
} from './transport/electronTransport';
export { type FetchTransportOptions, fetchTransport } from './transport/fetchTransport';
export {
  type Transport,
  type TransportReply,
  type TransportRequest,
  Unreachable,
} from './transport/transport';
