// Made from the OpenAPI document of the server by `npm run generate`. Not to be edited.

/** The password, as proof that the owner of the account asks. */
export type AccountDeletion = {
  readonly password: string;
};

/** `move`: also from another tab of the same user. */
export type AcquireRequest = {
  readonly move?: boolean;
};

/** An application, with the caller's role. */
export type Application = {
  readonly created_at: number;
  readonly id: string;
  readonly name: string;
  readonly role: "viewer" | "editor" | "owner";
};

/** A new application, or a new name for one. */
export type ApplicationName = {
  readonly name: string;
};

/** A draft, its base version and the current document. `base` is null if that version never existed. `diff` has the lines of a unified diff from `current` to the draft: what restoring it would change. JSON is compared indented. It is null if it would be too long: above 4 Mi characters, as it or an indented content. */
export type Comparison = {
  readonly base: ContentAt | null;
  readonly current: ContentAt;
  readonly diff: readonly (string)[] | null;
  readonly draft: Draft;
};

/** The content of a document at a version. */
export type ContentAt = {
  readonly content: string | { readonly [member: string]: unknown };
  readonly version: number;
};

/** The address and password of an account. */
export type Credentials = {
  readonly email: string;
  readonly password: string;
};

/** The current document. */
export type Document = {
  readonly application_id: string | null;
  readonly content: string | { readonly [member: string]: unknown };
  readonly created_at: number;
  readonly id: string;
  readonly is_personal: boolean;
  readonly owner_id: string;
  readonly project_id: string | null;
  readonly role: "viewer" | "editor" | "owner";
  readonly title: string;
  readonly updated_at: number;
  readonly updated_by: string;
  readonly updated_by_name: string;
  readonly version: number;
};

/** A document without its content. `role` is the caller's; `version` is 0 before the first save. */
export type DocumentSummary = {
  readonly application_id: string | null;
  readonly created_at: number;
  readonly id: string;
  readonly is_personal: boolean;
  readonly owner_id: string;
  readonly project_id: string | null;
  readonly role: "viewer" | "editor" | "owner";
  readonly title: string;
  readonly updated_at: number;
  readonly updated_by: string;
  readonly updated_by_name: string;
  readonly version: number;
};

/** A new title. */
export type DocumentTitle = {
  readonly title: string;
};

/** A draft. */
export type Draft = {
  readonly author_id: string;
  readonly author_name: string;
  readonly base_version: number;
  readonly content: string | { readonly [member: string]: unknown };
  readonly created_at: number;
  readonly document_id: string;
  readonly fence: string;
  readonly id: string;
  readonly reason: "stale_fence" | "stale_base" | "not_holder";
  readonly settled_at: number | null;
  readonly settled_by: string | null;
  readonly status: "open" | "restored" | "discarded";
};

/** A draft without its content. It is open until it is restored or discarded. */
export type DraftSummary = {
  readonly author_id: string;
  readonly author_name: string;
  readonly base_version: number;
  readonly created_at: number;
  readonly document_id: string;
  readonly fence: string;
  readonly id: string;
  readonly reason: "stale_fence" | "stale_base" | "not_holder";
  readonly settled_at: number | null;
  readonly settled_by: string | null;
  readonly status: "open" | "restored" | "discarded";
};

/** A document that is being edited. `application_id` is that of its project, if it is in one. */
export type EditedDocument = {
  readonly application_id: string;
  readonly application_name: string;
  readonly document_id: string;
  readonly lock: Lock;
  readonly project_id: string | null;
  readonly title: string;
};

/** The answer to a heartbeat of the holder. */
export type ExtendedLock = {
  readonly document_id: string;
  readonly expires_in: number | null;
  readonly extended: boolean;
  readonly lock_holder: LockHolder | null;
  readonly locked: boolean;
  readonly taking: Taking | null;
  readonly version: LockVersion;
};

/** The caller holds the lock: `fence` goes with every save. Load the document if `content_version` is newer. */
export type GrantedLock = {
  readonly content_version: number;
  readonly document_id: string;
  readonly expires_in: number | null;
  readonly fence: string;
  readonly lock_holder: LockHolder | null;
  readonly locked: boolean;
  readonly taking: Taking | null;
  readonly version: LockVersion;
};

/** `idle_for`: seconds since the last activity. */
export type HeartbeatRequest = {
  readonly idle_for?: number | null;
};

/** The state of a document's lock. */
export type Lock = {
  readonly document_id: string;
  readonly expires_in: number | null;
  readonly lock_holder: LockHolder | null;
  readonly locked: boolean;
  readonly taking: Taking | null;
  readonly version: LockVersion;
};

/** The holds of a document, newest first. */
export type LockHistory = {
  readonly holds: readonly (PastHold)[];
};

/** The holder; `same_user` and `tab_is_mine` are relative to the client that receives it. */
export type LockHolder = {
  readonly acquired_at: number;
  readonly idle_since: number | null;
  readonly same_user: boolean;
  readonly tab_is_mine: boolean;
  readonly user_id: string;
  readonly user_name: string;
};

/** Orders the states of one lock: by `fence` as a number, then by `step`. */
export type LockVersion = {
  readonly fence: string;
  readonly step: number;
};

/** One login of the account. `last_used_at`: when it was last refreshed. */
export type Login = {
  readonly created_at: number;
  readonly expires_at: number;
  readonly id: string;
  readonly is_current: boolean;
  readonly last_used_at: number;
};

/** `email` is visible to owners and to the member. */
export type Member = {
  readonly created_at: number;
  readonly email: string | null;
  readonly role: "viewer" | "editor" | "owner";
  readonly user_id: string;
  readonly user_name: string;
};

/** A new role for a member. */
export type MemberRole = {
  readonly role: "viewer" | "editor" | "owner";
};

/** Content that was made from `base_version` under the grant `fence`. */
export type NewContent = {
  readonly base_version: number;
  readonly content: string | { readonly [member: string]: unknown };
  readonly fence: string;
  readonly reason?: "released" | "idle";
  readonly release?: boolean;
};

/** A new document: in an application, in a project, or in neither, and then personal. */
export type NewDocument = {
  readonly application_id?: string | null;
  readonly project_id?: string | null;
  readonly title: string;
};

/** A registered user, by email address. */
export type NewMember = {
  readonly email: string;
  readonly role: "viewer" | "editor" | "owner";
};

/** A project of an application. */
export type NewProject = {
  readonly application_id: string;
  readonly name: string;
};

export type ApplicationPage = {
  readonly items: readonly (Application)[];
  readonly next_offset: number | null;
};

export type DocumentSummaryPage = {
  readonly items: readonly (DocumentSummary)[];
  readonly next_offset: number | null;
};

export type DraftSummaryPage = {
  readonly items: readonly (DraftSummary)[];
  readonly next_offset: number | null;
};

export type EditedDocumentPage = {
  readonly items: readonly (EditedDocument)[];
  readonly next_offset: number | null;
};

export type LoginPage = {
  readonly items: readonly (Login)[];
  readonly next_offset: number | null;
};

export type MemberPage = {
  readonly items: readonly (Member)[];
  readonly next_offset: number | null;
};

export type ProjectPage = {
  readonly items: readonly (Project)[];
  readonly next_offset: number | null;
};

export type VersionSummaryPage = {
  readonly items: readonly (VersionSummary)[];
  readonly next_offset: number | null;
};

/** A new password, and the one until now. */
export type PasswordChange = {
  readonly current_password: string;
  readonly new_password: string;
};

/** One hold, and why it ended. The last three members are null while it lasts. */
export type PastHold = {
  readonly acquired_at: number;
  readonly ended_at: number | null;
  readonly ended_by: Person | null;
  readonly fence: string;
  readonly reason: "released" | "idle" | "taken" | "expired" | "moved" | null;
  readonly user_id: string;
  readonly user_name: string;
};

/** A user, as shown to others. */
export type Person = {
  readonly user_id: string;
  readonly user_name: string;
};

/** A project. Its members are those of its application. */
export type Project = {
  readonly application_id: string;
  readonly created_at: number;
  readonly id: string;
  readonly name: string;
};

/** A new account. */
export type Registration = {
  readonly display_name: string;
  readonly email: string;
  readonly password: string;
};

/** The grant under which the draft becomes a version, and the version that it follows. */
export type Restoring = {
  readonly base_version: number;
  readonly fence: string;
};

/** `lock_lost`: true if the lock has ended by now; null if the lock store did not answer. */
export type SavedContent = {
  readonly lock_lost: boolean | null;
  readonly version: number;
};

/** A signed-in account. `access_token` is valid for `expires_in` seconds. `csrf_token` goes into the header X-CSRF-Token of refresh and logout. */
export type SignedInUser = {
  readonly access_token: string;
  readonly created_at: number;
  readonly csrf_token: string;
  readonly display_name: string;
  readonly email: string;
  readonly expires_in: number;
  readonly id: string;
  readonly token_type: "bearer";
};

/** `saved`: whether the previous editor answered with a save; null if there was none to ask. */
export type TakenLock = {
  readonly content_version: number;
  readonly document_id: string;
  readonly expires_in: number | null;
  readonly fence: string;
  readonly lock_holder: LockHolder | null;
  readonly locked: boolean;
  readonly saved: boolean | null;
  readonly taking: Taking | null;
  readonly version: LockVersion;
};

/** A force-take in progress: its user, and how long the holder may still save. */
export type Taking = {
  readonly seconds_left: number;
  readonly user_id: string;
  readonly user_name: string;
};

/** Opens one socket, once, within `expires_in` seconds. */
export type Ticket = {
  readonly expires_in: number;
  readonly ticket: string;
};

/** An account as its owner sees it. */
export type User = {
  readonly created_at: number;
  readonly display_name: string;
  readonly email: string;
  readonly id: string;
};

/** One version. */
export type Version = {
  readonly author_id: string;
  readonly author_name: string;
  readonly content: string | { readonly [member: string]: unknown };
  readonly created_at: number;
  readonly fence: string;
  readonly version: number;
};

/** One version, without its content. */
export type VersionSummary = {
  readonly author_id: string;
  readonly author_name: string;
  readonly created_at: number;
  readonly fence: string;
  readonly version: number;
};

/** The operations by method and path: parameters, body and answer. */
export interface Operations {
  'GET /api/applications': { path: undefined; query: { limit?: number; offset?: number }; body: undefined; reply: ApplicationPage };
  'POST /api/applications': { path: undefined; query: undefined; body: ApplicationName; reply: Application };
  'DELETE /api/applications/{application_id}': { path: { application_id: string }; query: undefined; body: undefined; reply: undefined };
  'GET /api/applications/{application_id}': { path: { application_id: string }; query: undefined; body: undefined; reply: Application };
  'PATCH /api/applications/{application_id}': { path: { application_id: string }; query: undefined; body: ApplicationName; reply: Application };
  'GET /api/applications/{application_id}/members': { path: { application_id: string }; query: { limit?: number; offset?: number }; body: undefined; reply: MemberPage };
  'POST /api/applications/{application_id}/members': { path: { application_id: string }; query: undefined; body: NewMember; reply: Member };
  'DELETE /api/applications/{application_id}/members/{user_id}': { path: { application_id: string; user_id: string }; query: undefined; body: undefined; reply: undefined };
  'PATCH /api/applications/{application_id}/members/{user_id}': { path: { application_id: string; user_id: string }; query: undefined; body: MemberRole; reply: Member };
  'POST /api/auth/login': { path: undefined; query: undefined; body: Credentials; reply: SignedInUser };
  'DELETE /api/auth/logins': { path: undefined; query: undefined; body: undefined; reply: undefined };
  'GET /api/auth/logins': { path: undefined; query: { limit?: number; offset?: number }; body: undefined; reply: LoginPage };
  'DELETE /api/auth/logins/{login_id}': { path: { login_id: string }; query: undefined; body: undefined; reply: undefined };
  'POST /api/auth/logout': { path: undefined; query: undefined; body: undefined; reply: undefined };
  'GET /api/auth/me': { path: undefined; query: undefined; body: undefined; reply: User };
  'POST /api/auth/me/delete': { path: undefined; query: undefined; body: AccountDeletion; reply: undefined };
  'POST /api/auth/password': { path: undefined; query: undefined; body: PasswordChange; reply: undefined };
  'POST /api/auth/refresh': { path: undefined; query: undefined; body: undefined; reply: SignedInUser };
  'POST /api/auth/register': { path: undefined; query: undefined; body: Registration; reply: SignedInUser };
  'GET /api/documents': { path: undefined; query: { application_id?: string | null; project_id?: string | null; personal?: boolean | null; limit?: number; offset?: number }; body: undefined; reply: DocumentSummaryPage };
  'POST /api/documents': { path: undefined; query: undefined; body: NewDocument; reply: Document };
  'DELETE /api/documents/{document_id}': { path: { document_id: string }; query: undefined; body: undefined; reply: undefined };
  'GET /api/documents/{document_id}': { path: { document_id: string }; query: undefined; body: undefined; reply: Document };
  'PATCH /api/documents/{document_id}': { path: { document_id: string }; query: undefined; body: DocumentTitle; reply: Document };
  'PUT /api/documents/{document_id}/content': { path: { document_id: string }; query: undefined; body: NewContent; reply: SavedContent };
  'GET /api/documents/{document_id}/drafts': { path: { document_id: string }; query: { limit?: number; offset?: number }; body: undefined; reply: DraftSummaryPage };
  'GET /api/documents/{document_id}/drafts/{draft_id}': { path: { document_id: string; draft_id: string }; query: undefined; body: undefined; reply: Draft };
  'GET /api/documents/{document_id}/drafts/{draft_id}/compare': { path: { document_id: string; draft_id: string }; query: undefined; body: undefined; reply: Comparison };
  'POST /api/documents/{document_id}/drafts/{draft_id}/discard': { path: { document_id: string; draft_id: string }; query: undefined; body: undefined; reply: Draft };
  'POST /api/documents/{document_id}/drafts/{draft_id}/restore': { path: { document_id: string; draft_id: string }; query: undefined; body: Restoring; reply: SavedContent };
  'DELETE /api/documents/{document_id}/lock': { path: { document_id: string }; query: { reason?: "released" | "idle" }; body: undefined; reply: Lock };
  'GET /api/documents/{document_id}/lock': { path: { document_id: string }; query: undefined; body: undefined; reply: Lock };
  'POST /api/documents/{document_id}/lock': { path: { document_id: string }; query: undefined; body: AcquireRequest | null; reply: GrantedLock };
  'POST /api/documents/{document_id}/lock/force-take': { path: { document_id: string }; query: undefined; body: undefined; reply: TakenLock };
  'POST /api/documents/{document_id}/lock/heartbeat': { path: { document_id: string }; query: undefined; body: HeartbeatRequest | null; reply: ExtendedLock };
  'GET /api/documents/{document_id}/lock/history': { path: { document_id: string }; query: { limit?: number }; body: undefined; reply: LockHistory };
  'GET /api/documents/{document_id}/versions': { path: { document_id: string }; query: { limit?: number; offset?: number }; body: undefined; reply: VersionSummaryPage };
  'GET /api/documents/{document_id}/versions/{version}': { path: { document_id: string; version: number }; query: undefined; body: undefined; reply: Version };
  'POST /api/live/ticket': { path: undefined; query: undefined; body: undefined; reply: Ticket };
  'GET /api/locks': { path: undefined; query: { limit?: number; offset?: number }; body: undefined; reply: EditedDocumentPage };
  'GET /api/projects': { path: undefined; query: { application_id?: string | null; limit?: number; offset?: number }; body: undefined; reply: ProjectPage };
  'POST /api/projects': { path: undefined; query: undefined; body: NewProject; reply: Project };
  'DELETE /api/projects/{project_id}': { path: { project_id: string }; query: undefined; body: undefined; reply: undefined };
  'GET /api/projects/{project_id}': { path: { project_id: string }; query: undefined; body: undefined; reply: Project };
  'GET /healthz': { path: undefined; query: undefined; body: undefined; reply: { readonly [member: string]: unknown } };
  'GET /readyz': { path: undefined; query: undefined; body: undefined; reply: unknown };
}
