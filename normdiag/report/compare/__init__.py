"""What two reports, and where there are values what two models, differ in; without torch."""
