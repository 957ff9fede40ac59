export { LockBanner, type LockBannerProps } from './banner/LockBanner';
export { type LockMessages, messages } from './banner/messages';
export type { CompareTarget } from './banner/OutcomeActions';
export type { Draft, DraftStore } from './drafts/draft';
export { indexedDrafts } from './drafts/indexedDrafts';
export { type Content, isSameContent, type LoadedDocument } from './editing/content';
export type {
  DocumentLock,
  DocumentLockActions,
  DocumentLockState,
  LockStatus,
  Role,
} from './editing/documentLock';
export type { LossReason, Notice, TextOutcome } from './editing/notices';
export { restService } from './editing/restService';
export type {
  AcquireAnswer,
  BeatAnswer,
  DocumentService,
  LoadAnswer,
  LookAnswer,
  SaveAnswer,
  SaveRequest,
} from './editing/service';
export { defaultTimes, type Times } from './editing/times';
export type { BeforeRelease, DocumentLockOptions } from './hooks/options';
export { useDocumentLock } from './hooks/useDocumentLock';
export { useLivePhase } from './hooks/useLivePhase';
export { useWatchedLock } from './hooks/useWatchedLock';
export { connectLive, type LiveOptions } from './live/connectLive';
export type { Live, LiveEvent, LivePhase } from './live/live';
export type { Lock, LockHolder, LockVersion, Person, Taking } from './protocol/messages.generated';
export { pageTab } from './protocol/tab';
export { broadcastTabs } from './tabs/broadcastTabs';
export type { TabLine, TabMessage, Tabs } from './tabs/tabs';
export type { Ticker } from './ticking/ticker';
export { pageTicker, workerTicker } from './ticking/workerTicker';
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
