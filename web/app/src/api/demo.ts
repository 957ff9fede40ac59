export interface DemoPerson {
  readonly name: string;
  readonly role: 'owner' | 'editor' | 'viewer';
  readonly email: string;
  readonly password: string;
}

/** The demo's people. The server lists them in the page itself, and only if it runs the demo. */
export function demoPeople(page: Document = document): readonly DemoPerson[] {
  const told = page.querySelector('meta[name="leasehold-demo"]')?.getAttribute('content');
  return told ? (JSON.parse(told) as readonly DemoPerson[]) : [];
}
