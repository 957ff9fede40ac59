import { expect, type Locator, type Page } from '@playwright/test';
import type { Name } from './apiClient';

export type Status = 'free' | 'mine' | 'other' | 'other-tab' | 'taking' | 'taken' | 'lost' | 'offline';

/** Somebody at the page of a document. */
export class Desk {
  readonly page: Page;
  readonly banner: Locator;
  /** What the banner says, without its buttons. */
  readonly sentence: Locator;
  readonly editor: Locator;
  readonly saveState: Locator;

  constructor(page: Page) {
    this.page = page;
    this.banner = page.locator('.leasehold-banner');
    this.sentence = this.banner.getByRole('status').first();
    this.editor = page.getByRole('textbox', { name: /Text of the document|Text des Dokuments/ });
    this.saveState = page.getByTestId('save-state');
  }

  async isAt(status: Status): Promise<void> {
    await expect(this.banner).toHaveAttribute('data-status', status);
  }

  /** Types at the end of the text, key by key. */
  async type(text: string): Promise<void> {
    await expect(this.editor).toHaveAttribute('contenteditable', 'true');
    await this.editor.press('Control+End');
    await this.editor.pressSequentially(text);
  }

  /** Types and has the lock. */
  async take(text: string): Promise<void> {
    await this.type(text);
    await this.isAt('mine');
    await expect(this.editor).toContainText(text);
  }

  press(name: string | RegExp): Promise<void> {
    return this.banner.getByRole('button', { name, exact: typeof name === 'string' }).click();
  }
}

/** Signs in on the page that is shown, with the one click of the demo. It is done when this returns. */
export async function signIn(page: Page, name: Name): Promise<void> {
  await page.getByRole('button', { name: new RegExp(`^${name}\\b`) }).click();
  await expect(page.getByRole('button', { name: /^(Sign out|Abmelden)$/ })).toBeVisible();
}
